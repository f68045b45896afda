// Written by `python -m atalla.header` from the package isa; do not change it here.
// clang-format off: the file is compared with what Python writes.
#pragma once
enum { AT_F32 = 1, AT_F64 = 2, AT_F16 = 3, AT_BF16 = 4, AT_I8 = 5, AT_U8 = 6, AT_I16 = 7, AT_I32 = 8, AT_I64 = 9,
  AT_BOOL = 10, AT_DTYPE_COUNT = 11 };
enum { AT_INPUT = 1, AT_OUTPUT = 2, AT_CONST = 3, AT_ARENA = 4, AT_STATE = 5, AT_SPACE_COUNT = 6 };
enum { AT_STRIDED = 0, AT_PANELS = 1, AT_DEPTHWISE = 2, AT_WINOGRAD = 3, AT_LAYOUT_COUNT = 4 };
enum { AT_OP_END = 0, AT_OP_CALL_HOST = 1, AT_OP_COPY = 2, AT_OP_FILL = 3, AT_OP_IOTA = 4, AT_OP_GATHER = 5,
  AT_OP_EW = 6, AT_OP_GEMM = 7, AT_OP_BMM = 8, AT_OP_CONV2D = 9, AT_OP_CONV2D_WINO = 10, AT_OP_DWCONV2D = 11,
  AT_OP_POOL2D = 12, AT_OP_REDUCE = 13, AT_OP_SOFTMAX = 14, AT_OP_NORM = 15, AT_OP_ATTENTION = 16, AT_OP_CUMSUM = 17,
  AT_OP_RESIZE2D = 18, AT_OP_SCATTER = 19, AT_OP_SAMPLE2D = 20, AT_OP_COUNT = 21 };
enum { AT_ACT_NONE = 0, AT_ACT_RELU = 1, AT_ACT_CLAMP = 2, AT_ACT_HARDSWISH = 3, AT_ACT_HARDSIGMOID = 4,
  AT_ACT_SIGMOID = 5, AT_ACT_SILU = 6, AT_ACT_GELU = 7, AT_ACT_GELU_TANH = 8, AT_ACT_TANH = 9, AT_ACT_COUNT = 10 };
enum { AT_POOL_MAX = 0, AT_POOL_MEAN = 1, AT_POOL_MEAN_PADDED = 2, AT_POOL_COUNT = 3 };
enum { AT_REDUCE_SUM = 0, AT_REDUCE_MEAN = 1, AT_REDUCE_MAX = 2, AT_REDUCE_MIN = 3, AT_REDUCE_PROD = 4,
  AT_REDUCE_ALL = 5, AT_REDUCE_ANY = 6, AT_REDUCE_ARGMAX = 7, AT_REDUCE_ARGMIN = 8, AT_REDUCE_VAR = 9,
  AT_REDUCE_MEDIAN = 10, AT_REDUCE_COUNT = 11 };
enum { AT_NORM_LAYER = 0, AT_NORM_RMS = 1, AT_NORM_COUNT = 2 };
enum { AT_RESIZE_NEAREST = 0, AT_RESIZE_NEAREST_EXACT = 1, AT_RESIZE_LINEAR = 2, AT_RESIZE_LINEAR_ALIGNED = 3,
  AT_RESIZE_COUNT = 4 };
enum { AT_SCATTER_SET = 0, AT_SCATTER_ADD = 1, AT_SCATTER_MUL = 2, AT_SCATTER_MIN = 3, AT_SCATTER_MAX = 4,
  AT_SCATTER_COUNT = 5 };
enum { AT_SAMPLE_LINEAR = 0, AT_SAMPLE_NEAREST = 1, AT_SAMPLE_COUNT = 2 };
enum { AT_OUTSIDE_ZEROS = 0, AT_OUTSIDE_BORDER = 1, AT_OUTSIDE_REFLECTION = 2, AT_OUTSIDE_COUNT = 3 };
enum { AT_STEP_FLOAT = 0, AT_STEP_INT = 1, AT_STEP_TO_FLOAT = 2, AT_STEP_TO_INT = 3, AT_STEP_ADD = 4,
  AT_STEP_SUB = 5, AT_STEP_MUL = 6, AT_STEP_DIV = 7, AT_STEP_MIN = 8, AT_STEP_MAX = 9, AT_STEP_POW = 10,
  AT_STEP_NEG = 11, AT_STEP_ABS = 12, AT_STEP_SQRT = 13, AT_STEP_RSQRT = 14, AT_STEP_RECIPROCAL = 15,
  AT_STEP_EXP = 16, AT_STEP_LOG = 17, AT_STEP_TANH = 18, AT_STEP_ERF = 19, AT_STEP_SIN = 20, AT_STEP_COS = 21,
  AT_STEP_SIGMOID = 22, AT_STEP_FLOOR = 23, AT_STEP_CEIL = 24, AT_STEP_ROUND = 25, AT_STEP_TRUNC = 26,
  AT_STEP_RELU = 27, AT_STEP_HARDSWISH = 28, AT_STEP_HARDSIGMOID = 29, AT_STEP_SILU = 30, AT_STEP_GELU = 31,
  AT_STEP_GELU_TANH = 32, AT_STEP_EQ = 33, AT_STEP_NE = 34, AT_STEP_LT = 35, AT_STEP_LE = 36, AT_STEP_GT = 37,
  AT_STEP_GE = 38, AT_STEP_WHERE = 39, AT_STEP_AND = 40, AT_STEP_OR = 41, AT_STEP_XOR = 42, AT_STEP_NOT = 43,
  AT_STEP_FLOOR_DIV = 44, AT_STEP_REMAINDER = 45, AT_STEP_LOG1P = 46, AT_STEP_EXPM1 = 47, AT_STEP_SIGN = 48,
  AT_STEP_IS_NAN = 49, AT_STEP_BIT_NOT = 50, AT_STEP_LOG2 = 51, AT_STEP_LOG10 = 52, AT_STEP_COUNT = 53 };
enum { AT_BAD_SOUND = 0, AT_BAD_SIZE = 100, AT_BAD_MAGIC = 101, AT_BAD_ENDIAN = 102, AT_BAD_VERSION = 103,
  AT_BAD_HEADER = 104, AT_BAD_SECTION = 105, AT_BAD_CHECKSUM = 106, AT_BAD_STRINGS = 107, AT_BAD_TENSOR = 108,
  AT_BAD_BOUNDS = 109, AT_BAD_LISTS = 110, AT_BAD_INSTRUCTION = 111, AT_BAD_ATTRIBUTE = 112, AT_BAD_OPERANDS = 113,
  AT_BAD_WRITE = 114, AT_BAD_READ = 115, AT_BAD_OVERLAP = 116, AT_BAD_SYMBOLS = 117, AT_BAD_HOST = 118,
  AT_BAD_COUNT = 119 };
enum { AT_NODE_CONST = 0, AT_NODE_SYMBOL = 1, AT_NODE_ADD = 2, AT_NODE_MUL = 3, AT_NODE_FLOOR_DIV = 4,
  AT_NODE_MOD = 5, AT_NODE_MIN = 6, AT_NODE_MAX = 7, AT_NODE_COUNT = 8 };
enum { AT_PATCH_TENSOR = 0, AT_PATCH_WORD = 1, AT_PATCH_OUTPUT = 2, AT_PATCH_COUNT = 3 };
enum { AT_KIND_TENSOR = 0, AT_KIND_NONE = 1, AT_KIND_INT = 2, AT_KIND_FLOAT = 3, AT_KIND_BOOL = 4,
  AT_KIND_COUNT = 5 };
enum { AT_DIMS = 8, AT_SOURCES = 8, AT_STEPS = 40, AT_LINE = 64, AT_PAGE = 4096, AT_MOST_SECTIONS = 64,
  AT_MOST_ROWS = 1048576, AT_MOST_ATTRIBUTE = 1048576, AT_MOST_FILTER_ROWS = 64, AT_MOST_FACTOR = 1048576,
  AT_MOST_SCALE = 1048576, AT_PANEL = 16, AT_FEW_CHANNELS = 4, AT_MAJOR = 1, AT_ENDIAN = 16909060,
  AT_REQUIRED_SECTIONS = 8, AT_KNOWN_SECTIONS = 10 };
enum { AT_NOTHING = 0xffffffff };
#define AT_MOST_BYTES ((uint64_t)1099511627776)
#define AT_MAGIC "ATLB\r\n\x1a\n"
#define AT_SECTION_NAMES { "STRT", "OPER", "TENS", "INSN", "ATTR", "IOTB", "HOST", "CNST", "STAT", "SYMS" }
#define AT_DTYPE_SIZES { [AT_F32] = 4, [AT_F64] = 8, [AT_F16] = 2, [AT_BF16] = 2, [AT_I8] = 1, [AT_U8] = 1, \
  [AT_I16] = 2, [AT_I32] = 4, [AT_I64] = 8, [AT_BOOL] = 1 }
#define AT_OP_NAMES { [AT_OP_END] = "END", [AT_OP_CALL_HOST] = "CALL_HOST", [AT_OP_COPY] = "COPY", \
  [AT_OP_FILL] = "FILL", [AT_OP_IOTA] = "IOTA", [AT_OP_GATHER] = "GATHER", [AT_OP_EW] = "EW", [AT_OP_GEMM] = "GEMM", \
  [AT_OP_BMM] = "BMM", [AT_OP_CONV2D] = "CONV2D", [AT_OP_CONV2D_WINO] = "CONV2D_WINO", [AT_OP_DWCONV2D] = "DWCONV2D", \
  [AT_OP_POOL2D] = "POOL2D", [AT_OP_REDUCE] = "REDUCE", [AT_OP_SOFTMAX] = "SOFTMAX", [AT_OP_NORM] = "NORM", \
  [AT_OP_ATTENTION] = "ATTENTION", [AT_OP_CUMSUM] = "CUMSUM", [AT_OP_RESIZE2D] = "RESIZE2D", \
  [AT_OP_SCATTER] = "SCATTER", [AT_OP_SAMPLE2D] = "SAMPLE2D" }
// Of each operation: sources at least, at most, words (-1: any), whether all sources are there.
#define AT_OP_SPECS { [AT_OP_END] = {0, 0, 0, 0}, [AT_OP_CALL_HOST] = {0, -1, 1, 1}, [AT_OP_COPY] = {1, 1, 0, 0}, \
  [AT_OP_FILL] = {0, 0, 2, 0}, [AT_OP_IOTA] = {0, 0, 2, 0}, [AT_OP_GATHER] = {2, 2, 0, 0}, \
  [AT_OP_EW] = {0, 8, -1, 1}, [AT_OP_GEMM] = {2, 4, 3, 0}, [AT_OP_BMM] = {2, 2, 1, 0}, \
  [AT_OP_CONV2D] = {2, 4, 14, 0}, [AT_OP_CONV2D_WINO] = {2, 4, 14, 0}, [AT_OP_DWCONV2D] = {2, 4, 14, 0}, \
  [AT_OP_POOL2D] = {1, 1, 11, 0}, [AT_OP_REDUCE] = {1, 1, 3, 0}, [AT_OP_SOFTMAX] = {1, 1, 2, 0}, \
  [AT_OP_NORM] = {1, 3, 3, 0}, [AT_OP_ATTENTION] = {3, 4, 2, 0}, [AT_OP_CUMSUM] = {1, 1, 1, 0}, \
  [AT_OP_RESIZE2D] = {1, 1, 3, 0}, [AT_OP_SCATTER] = {3, 3, 1, 0}, [AT_OP_SAMPLE2D] = {2, 2, 3, 0} }
// Of each step: the kinds of its operands and of its value, see StepSpec.
#define AT_STEP_SPECS { [AT_STEP_FLOAT] = {"", 'f'}, [AT_STEP_INT] = {"", 'w'}, [AT_STEP_TO_FLOAT] = {"w", 'f'}, \
  [AT_STEP_TO_INT] = {"f", 'w'}, [AT_STEP_ADD] = {"ss", 's'}, [AT_STEP_SUB] = {"ss", 's'}, \
  [AT_STEP_MUL] = {"ss", 's'}, [AT_STEP_DIV] = {"ff", 'f'}, [AT_STEP_MIN] = {"ss", 's'}, [AT_STEP_MAX] = {"ss", 's'}, \
  [AT_STEP_POW] = {"ff", 'f'}, [AT_STEP_NEG] = {"s", 's'}, [AT_STEP_ABS] = {"s", 's'}, [AT_STEP_SQRT] = {"f", 'f'}, \
  [AT_STEP_RSQRT] = {"f", 'f'}, [AT_STEP_RECIPROCAL] = {"f", 'f'}, [AT_STEP_EXP] = {"f", 'f'}, \
  [AT_STEP_LOG] = {"f", 'f'}, [AT_STEP_TANH] = {"f", 'f'}, [AT_STEP_ERF] = {"f", 'f'}, [AT_STEP_SIN] = {"f", 'f'}, \
  [AT_STEP_COS] = {"f", 'f'}, [AT_STEP_SIGMOID] = {"f", 'f'}, [AT_STEP_FLOOR] = {"f", 'f'}, \
  [AT_STEP_CEIL] = {"f", 'f'}, [AT_STEP_ROUND] = {"f", 'f'}, [AT_STEP_TRUNC] = {"f", 'f'}, \
  [AT_STEP_RELU] = {"s", 's'}, [AT_STEP_HARDSWISH] = {"f", 'f'}, [AT_STEP_HARDSIGMOID] = {"f", 'f'}, \
  [AT_STEP_SILU] = {"f", 'f'}, [AT_STEP_GELU] = {"f", 'f'}, [AT_STEP_GELU_TANH] = {"f", 'f'}, \
  [AT_STEP_EQ] = {"ss", 'w'}, [AT_STEP_NE] = {"ss", 'w'}, [AT_STEP_LT] = {"ss", 'w'}, [AT_STEP_LE] = {"ss", 'w'}, \
  [AT_STEP_GT] = {"ss", 'w'}, [AT_STEP_GE] = {"ss", 'w'}, [AT_STEP_WHERE] = {"wss", 's'}, \
  [AT_STEP_AND] = {"ww", 'w'}, [AT_STEP_OR] = {"ww", 'w'}, [AT_STEP_XOR] = {"ww", 'w'}, [AT_STEP_NOT] = {"w", 'w'}, \
  [AT_STEP_FLOOR_DIV] = {"ss", 's'}, [AT_STEP_REMAINDER] = {"ss", 's'}, [AT_STEP_LOG1P] = {"f", 'f'}, \
  [AT_STEP_EXPM1] = {"f", 'f'}, [AT_STEP_SIGN] = {"s", 's'}, [AT_STEP_IS_NAN] = {"f", 'w'}, \
  [AT_STEP_BIT_NOT] = {"w", 'w'}, [AT_STEP_LOG2] = {"f", 'f'}, [AT_STEP_LOG10] = {"f", 'f'} }
// What verdicts say, from AT_BAD_SIZE on.
#define AT_VERDICT_TEXTS { "the size is not the one that the header says", "this is no Atalla blob", \
  "written for the other order of bytes", "a version or a feature that this loader does not know", \
  "the header is damaged", "the table of sections is damaged", "a section is damaged: its checksum is wrong", \
  "the strings are damaged", "a tensor's description has no meaning", "a tensor reaches out of its memory", \
  "a list of inputs, outputs, operands or calls is damaged", \
  "an instruction is unknown, or has the wrong number of operands", "an instruction's attribute has no meaning", \
  "an instruction does not take these operands", "an instruction writes what must not be written", \
  "something is read before it was written", "two tensors share memory while both are needed", \
  "symbols are damaged, or are not what the tables were made with", \
  "it calls an operator on the host that only a trusted blob may call" }
// Words of each operation's attributes, by their order.
enum { AT_CALL_HOST_CALL = 0, AT_CALL_HOST_OUTPUTS = 1 };
enum { AT_FILL_VALUE = 0, AT_FILL_WHOLE = 1 };
enum { AT_IOTA_START = 0, AT_IOTA_STEP = 1 };
enum { AT_EW_STEPS = 0 };
enum { AT_GEMM_ACT = 0, AT_GEMM_LOW = 1, AT_GEMM_HIGH = 2 };
enum { AT_BMM_SCALE = 0 };
enum { AT_CONV2D_STRIDE_H = 0, AT_CONV2D_STRIDE_W = 1, AT_CONV2D_TOP = 2, AT_CONV2D_LEFT = 3, AT_CONV2D_BOTTOM = 4,
  AT_CONV2D_RIGHT = 5, AT_CONV2D_DILATION_H = 6, AT_CONV2D_DILATION_W = 7, AT_CONV2D_KERNEL_H = 8,
  AT_CONV2D_KERNEL_W = 9, AT_CONV2D_GROUPS = 10, AT_CONV2D_ACT = 11, AT_CONV2D_LOW = 12, AT_CONV2D_HIGH = 13 };
enum { AT_CONV2D_WINO_STRIDE_H = 0, AT_CONV2D_WINO_STRIDE_W = 1, AT_CONV2D_WINO_TOP = 2, AT_CONV2D_WINO_LEFT = 3,
  AT_CONV2D_WINO_BOTTOM = 4, AT_CONV2D_WINO_RIGHT = 5, AT_CONV2D_WINO_DILATION_H = 6, AT_CONV2D_WINO_DILATION_W = 7,
  AT_CONV2D_WINO_KERNEL_H = 8, AT_CONV2D_WINO_KERNEL_W = 9, AT_CONV2D_WINO_GROUPS = 10, AT_CONV2D_WINO_ACT = 11,
  AT_CONV2D_WINO_LOW = 12, AT_CONV2D_WINO_HIGH = 13 };
enum { AT_DWCONV2D_STRIDE_H = 0, AT_DWCONV2D_STRIDE_W = 1, AT_DWCONV2D_TOP = 2, AT_DWCONV2D_LEFT = 3,
  AT_DWCONV2D_BOTTOM = 4, AT_DWCONV2D_RIGHT = 5, AT_DWCONV2D_DILATION_H = 6, AT_DWCONV2D_DILATION_W = 7,
  AT_DWCONV2D_KERNEL_H = 8, AT_DWCONV2D_KERNEL_W = 9, AT_DWCONV2D_GROUPS = 10, AT_DWCONV2D_ACT = 11,
  AT_DWCONV2D_LOW = 12, AT_DWCONV2D_HIGH = 13 };
enum { AT_POOL2D_KIND = 0, AT_POOL2D_STRIDE_H = 1, AT_POOL2D_STRIDE_W = 2, AT_POOL2D_TOP = 3, AT_POOL2D_LEFT = 4,
  AT_POOL2D_BOTTOM = 5, AT_POOL2D_RIGHT = 6, AT_POOL2D_DILATION_H = 7, AT_POOL2D_DILATION_W = 8,
  AT_POOL2D_KERNEL_H = 9, AT_POOL2D_KERNEL_W = 10 };
enum { AT_REDUCE_KIND = 0, AT_REDUCE_DIMS = 1, AT_REDUCE_CORRECTION = 2 };
enum { AT_SOFTMAX_AXIS = 0, AT_SOFTMAX_LOG = 1 };
enum { AT_NORM_KIND = 0, AT_NORM_DIMS = 1, AT_NORM_EPS = 2 };
enum { AT_ATTENTION_CAUSAL = 0, AT_ATTENTION_SCALE = 1 };
enum { AT_CUMSUM_AXIS = 0 };
enum { AT_RESIZE2D_KIND = 0, AT_RESIZE2D_SCALE_H = 1, AT_RESIZE2D_SCALE_W = 2 };
enum { AT_SCATTER_KIND = 0 };
enum { AT_SAMPLE2D_KIND = 0, AT_SAMPLE2D_OUTSIDE = 1, AT_SAMPLE2D_ALIGNED = 2 };
// Bytes of each record, and where its fields begin.
enum { AT_HEADER_BYTES = 64, AT_HEADER_AT_MAGIC = 0, AT_HEADER_AT_MAJOR = 8, AT_HEADER_AT_MINOR = 10,
  AT_HEADER_AT_ENDIAN = 12, AT_HEADER_AT_SECTIONS = 16, AT_HEADER_AT_FEATURES = 20, AT_HEADER_AT_BYTES = 24,
  AT_HEADER_AT_ARENA = 32, AT_HEADER_AT_STATE = 40, AT_HEADER_AT_CRC = 48, AT_HEADER_AT_ZEROS = 52 };
enum { AT_SECTION_BYTES = 32, AT_SECTION_AT_NAME = 0, AT_SECTION_AT_REQUIRED = 4, AT_SECTION_AT_OFFSET = 8,
  AT_SECTION_AT_BYTES = 16, AT_SECTION_AT_ALIGN = 24, AT_SECTION_AT_CRC = 28 };
enum { AT_TENSOR_BYTES = 168, AT_TENSOR_AT_DTYPE = 0, AT_TENSOR_AT_RANK = 1, AT_TENSOR_AT_SPACE = 2,
  AT_TENSOR_AT_LAYOUT = 3, AT_TENSOR_AT_ROOT = 4, AT_TENSOR_AT_OFFSET = 8, AT_TENSOR_AT_BYTES = 16,
  AT_TENSOR_AT_PLACE = 24, AT_TENSOR_AT_DIMS = 32, AT_TENSOR_AT_STRIDES = 96, AT_TENSOR_AT_NAME = 160,
  AT_TENSOR_AT_ZERO = 164 };
enum { AT_INSTRUCTION_BYTES = 32, AT_INSTRUCTION_AT_OP = 0, AT_INSTRUCTION_AT_SOURCES = 2, AT_INSTRUCTION_AT_DST = 4,
  AT_INSTRUCTION_AT_FIRST_SOURCE = 8, AT_INSTRUCTION_AT_FIRST_WORD = 12, AT_INSTRUCTION_AT_WORDS = 16,
  AT_INSTRUCTION_AT_NODE = 20, AT_INSTRUCTION_AT_LINE = 24, AT_INSTRUCTION_AT_ZERO = 28 };
enum { AT_STEP_BYTES = 8, AT_STEP_AT_CODE = 0, AT_STEP_AT_B = 1, AT_STEP_AT_C = 2, AT_STEP_AT_ZERO = 3,
  AT_STEP_AT_A = 4 };
enum { AT_OUTPUT_BYTES = 16, AT_OUTPUT_AT_KIND = 0, AT_OUTPUT_AT_TENSOR = 4, AT_OUTPUT_AT_VALUE = 8 };
enum { AT_CALL_BYTES = 16, AT_CALL_AT_NAME = 0, AT_CALL_AT_ARGUMENTS = 4, AT_CALL_AT_FIRST_OUTPUT = 8,
  AT_CALL_AT_OUTPUTS = 12 };
enum { AT_INITIAL_BYTES = 24, AT_INITIAL_AT_TO = 0, AT_INITIAL_AT_START = 8, AT_INITIAL_AT_BYTES = 16 };
enum { AT_SYMBOLS_BYTES = 16, AT_SYMBOLS_AT_SYMBOLS = 0, AT_SYMBOLS_AT_NODES = 4, AT_SYMBOLS_AT_GUARDS = 8,
  AT_SYMBOLS_AT_PATCHES = 12 };
enum { AT_SYMBOL_BYTES = 48, AT_SYMBOL_AT_NAME = 0, AT_SYMBOL_AT_ZERO = 4, AT_SYMBOL_AT_LEAST = 8,
  AT_SYMBOL_AT_MOST = 16, AT_SYMBOL_AT_INPUT = 24, AT_SYMBOL_AT_DIM = 28, AT_SYMBOL_AT_FACTOR = 32,
  AT_SYMBOL_AT_SUMMAND = 40 };
enum { AT_NODE_BYTES = 24, AT_NODE_AT_KIND = 0, AT_NODE_AT_ZERO = 4, AT_NODE_AT_A = 8, AT_NODE_AT_B = 16 };
enum { AT_GUARD_BYTES = 24, AT_GUARD_AT_NODE = 0, AT_GUARD_AT_ZERO = 4, AT_GUARD_AT_LEAST = 8,
  AT_GUARD_AT_MOST = 16 };
enum { AT_PATCH_BYTES = 16, AT_PATCH_AT_KIND = 0, AT_PATCH_AT_ROW = 4, AT_PATCH_AT_FIELD = 8,
  AT_PATCH_AT_NODE = 12 };
