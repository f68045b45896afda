/* Atalla's C ABI, version 3.
 *
 * Every function returns 0 for success, else a status; with a status it fills in `error` where one is given. Structures
 * begin with their size in the caller's eyes, so that later versions can add fields. Nothing here writes a global
 * variable.
 *
 * Threads: a blob is never written after it was opened, so that any number of threads may use it at once, each with a
 * context of its own. A context is used by any thread, by one at a time: atalla_run and atalla_reset give ATALLA_BUSY,
 * and do nothing, while another call of either is under way in the same context. The caller waits for the end of all
 * calls before atalla_context_free, and of those of all contexts before atalla_close; contexts that were given the same
 * `state` do not run at once.
 *
 * Version 2: atalla_open refuses operators of the host that are not in its list, atalla_open_trusted does not;
 * ATALLA_BUSY.
 * Version 3: the simulated device: what atalla_options holds from `hardware` on, ATALLA_TOO_SMALL, the functions
 * atalla_device_*. Options of version 2 are taken as they were.
 */
#ifndef ATALLA_H
#define ATALLA_H

#include <stddef.h>
#include <stdint.h>

#if defined(_WIN32)
#define ATALLA_API __declspec(dllexport)
#else
#define ATALLA_API __attribute__((visibility("default")))
#endif

#ifdef __cplusplus
extern "C" {
#endif

#define ATALLA_ABI_VERSION 3u

typedef struct atalla_blob atalla_blob;
typedef struct atalla_context atalla_context;

enum {
  ATALLA_OK = 0,
  ATALLA_OUT_OF_MEMORY = 1,
  ATALLA_BAD_ARGUMENT = 2, /* a null pointer, a size that is too small, an unknown name */
  ATALLA_BAD_INDEX = 3,    /* GATHER or SCATTER found an index out of bounds */
  ATALLA_HOST_FAILED = 4,  /* a call of the host gave a status */
  ATALLA_NO_HOST = 5,      /* the blob calls the host, and the context has none */
  ATALLA_BROKEN = 6,       /* debug builds: an instruction wrote beside its tensor */
  ATALLA_BAD_SHAPE = 7,    /* inputs of shapes that the program does not take */
  ATALLA_BUSY = 8,         /* the context is running already: in another thread, or in the host that it calls */
  ATALLA_ZERO_DIVISOR = 9, /* EW divided a whole number by zero */
  ATALLA_TOO_SMALL = 10,   /* the device's scratchpad or its address space; the text says what would do */
  ATALLA_OTHER_EDGES = 11, /* another matrix unit took other edges for a chain than the device counts */
  ATALLA_BAD_BLOB = 100    /* and above: what the loader found, see isa.h */
};

typedef struct {
  size_t struct_size;
  int status;
  char text[256]; /* ends with a zero */
} atalla_error;

/* A tensor in memory; strides count elements. */
typedef struct {
  size_t struct_size;
  uint32_t dtype; /* see isa.h */
  uint32_t rank;
  const int64_t* shape;
  const int64_t* strides;
  void* data;
} atalla_tensor;

/* Runs operator `call` of the blob's table; not 0 ends the run. Operands come first, then outputs, which it writes as
 * they are described: it compares what it computed with that before. */
typedef int (*atalla_host)(void* user, uint32_t call, const atalla_tensor* tensors, size_t operands, size_t outputs);

/* The simulated device. Everything takes whole cycles of one clock. */
typedef struct {
  size_t struct_size;
  uint32_t clock_mhz;
  uint32_t array;            /* rows, and columns, of the matrix unit: 8, 16, 32 or 64 */
  uint32_t accumulator_rows; /* rows of sums that it keeps, each `array` wide; 64 at least */
  uint32_t lanes;            /* of the vector unit, 32 bits each */
  uint64_t scratchpad_bytes; /* of each of the two; 32 KiB at least, a multiple of banks * 64 */
  uint32_t banks;            /* of a scratchpad */
  uint32_t align;            /* bytes: where regions begin; a power of two, 16 to 4096 */
  uint32_t dma_bytes_per_cycle;
  uint32_t dma_latency_cycles; /* of each descriptor */
  uint32_t queue;              /* micro-operations that wait for each engine at most */
  uint32_t issue_cycles;       /* of firmware, for each micro-operation */
  uint32_t matrix_f32_factor;  /* edges of the matrix unit for a row of float32; one of int8 or bfloat16 takes one */
  uint32_t vector_cycles[4];   /* for `lanes` elements: sum or product; quotient or root; exponential; int8 of sums */
  uint32_t vector_int8_factor; /* parts of a lane, which take an int8 each; 1, 2 or 4 */
} atalla_hardware;

/* A product of the matrix unit: a[m, k] x b[k, n] into sums[m, n]; strides count elements, those of a's and the sums'
 * columns are 1. What `accumulate` says is whether sums begin with those in memory, else with zeros. int8 into int32,
 * exact modulo 2^32; bfloat16 into float32, added as AMX adds. It is what src/atalla/rtl/shim.cpp takes. */
typedef struct {
  size_t struct_size;
  const void* a;
  int64_t a_stride;
  const void* b;
  int64_t b_row_stride, b_column_stride;
  void* sums;
  int64_t sums_stride;
  int64_t m, k, n; /* 1 to accumulator_rows, 1 or more, 1 to `array` */
  int32_t accumulate;
  uint32_t stalls;        /* 0 */
  uint64_t edges;         /* given back: of all; 0 where nobody counts */
  uint64_t compute_edges; /* given back: from the first weight to the last sum in its accumulator */
} atalla_matrix_tile;

/* Returns 0, else the run ends with ATALLA_HOST_FAILED. */
typedef int (*atalla_matmul)(void* unit, atalla_matrix_tile* tile);

/* Another matrix unit; where a function is NULL, the simulator multiplies itself. */
typedef struct {
  size_t struct_size;
  atalla_matmul int8, bf16;
  void *int8_unit, *bf16_unit; /* what they are called with */
} atalla_matrix_unit;

enum {
  ATALLA_DEVICE_DRY = 1,    /* time alone: no data is moved or looked at; inputs and outputs may be NULL */
  ATALLA_DEVICE_EVENTS = 2, /* keep what each micro-operation did, for atalla_device_events */
  ATALLA_DEVICE_POISON = 4, /* fill scratchpad memory with 0xff when it is handed out and when it is given back */
  ATALLA_DEVICE_COMPARE = 8 /* a chain for which another matrix unit counts other edges ends the run */
};

/* Called after each instruction, in the thread that runs, while the caller's and the context's memory hold what it
 * wrote; not 0 ends the run there, which is no failure. */
typedef int (*atalla_after)(void* user, uint32_t instruction);

typedef struct {
  size_t struct_size;
  uint32_t threads; /* 0: one; with several, runs find out what is worth sharing: the first 32, and some later */
  const char* isa;  /* "amx", "vnni", "avx512", "avx2", "base"; NULL: the best that this processor has */
  atalla_host host;
  void* user;
  int profile; /* not 0: keep the time of each instruction */
  void* state; /* `state_bytes` that are kept from run to run, of the caller, reset by it; NULL: the context's own */
  /* From here on since version 3. */
  const atalla_hardware* hardware; /* run on a device of this kind, simulated; NULL: by the fast kernels. Copied. */
  const atalla_matrix_unit* unit;  /* what multiplies int8 and bfloat16 on the device; NULL: the isa's own. Copied. */
  uint32_t device_flags;           /* ATALLA_DEVICE_DRY and so on */
  atalla_after after;              /* NULL: nobody looks. With it no two instructions are run in one pass */
  void* after_user;                /* what it is called with */
} atalla_options;

typedef struct {
  size_t struct_size;
  uint32_t inputs, outputs, instructions, tensors, calls;
  uint64_t arena_bytes, constant_bytes, state_bytes;
  uint32_t symbols; /* not 0: it runs with inputs of several sizes, see atalla_specialize */
} atalla_info;

/* What an instruction is: the name of its operation, and of the node of the compiled graph that it was made of, which
 * is `node_size` bytes without a zero at their end. Both live as long as the blob. */
typedef struct {
  size_t struct_size;
  const char* op;
  const char* node;
  size_t node_size;
} atalla_instruction;

ATALLA_API uint32_t atalla_version(void);

/* Proves that the bytes are a sound blob. They are borrowed: they must stay until atalla_close. Constants are not read:
 * whatever their bits are, a run stays in its memory. All operators that it calls on the host are in the list of
 * "hosted.inc": they make tensors of tensors, and do nothing else. */
ATALLA_API int atalla_open(const void* bytes, size_t size, atalla_blob** blob, atalla_error* error);
/* The same for a blob of the caller's own: it may call any operator on the host. */
ATALLA_API int atalla_open_trusted(const void* bytes, size_t size, atalla_blob** blob, atalla_error* error);
ATALLA_API void atalla_close(atalla_blob* blob);
ATALLA_API int atalla_describe(const atalla_blob* blob, atalla_info* info);
/* How the tensors that atalla_run takes are laid out; without data. The dtype of an output that is no tensor is 0. */
ATALLA_API int atalla_describe_input(const atalla_blob* blob, uint32_t index, atalla_tensor* tensor);
ATALLA_API int atalla_describe_output(const atalla_blob* blob, uint32_t index, atalla_tensor* tensor);
ATALLA_API int atalla_describe_instruction(const atalla_blob* blob, uint32_t index, atalla_instruction* instruction);
/* An output that is no tensor: 1 nothing, 2 an int, 3 a float (its bits), 4 a bool; 0 for a tensor. */
ATALLA_API int atalla_describe_value(const atalla_blob* blob, uint32_t index, uint32_t* kind, int64_t* value);

/* Reads all constants, and compares them with their checksum. */
ATALLA_API int atalla_check_constants(const atalla_blob* blob);

/* Returns the same program for inputs of these shapes (of `inputs`, nothing else is looked at), verified again; to be
 * closed as any other. It borrows the same bytes, and not `blob`. A blob with symbols that is not specialised runs with
 * the sizes of the example with which it was exported. */
ATALLA_API int atalla_specialize(const atalla_blob* blob, const atalla_tensor* inputs, size_t count,
                                 atalla_blob** result, atalla_error* error);

ATALLA_API int atalla_context_new(const atalla_blob* blob, const atalla_options* options, atalla_context** context,
                                  atalla_error* error);
ATALLA_API void atalla_context_free(atalla_context* context);

/* Runs the program. Inputs and outputs are where their first elements are, laid out as the blob says; a blob's output
 * that is no tensor has a null pointer. No output may share memory with an input or another output. */
ATALLA_API int atalla_run(atalla_context* context, void* const* inputs, void* const* outputs, atalla_error* error);

/* Where tensors of the space `arena` lie, atalla_info.arena_bytes; they hold what the run wrote so far. */
ATALLA_API const void* atalla_arena(const atalla_context* context);

/* Fills in the hardware that is meant where nobody says another. */
ATALLA_API int atalla_hardware_default(atalla_hardware* hardware);
/* Whether there can be such hardware; if not, the error says which field is wrong, and why. */
ATALLA_API int atalla_hardware_check(const atalla_hardware* hardware, atalla_error* error);

enum { ATALLA_LOAD = 0, ATALLA_STORE = 1, ATALLA_MATRIX = 2, ATALLA_VECTOR = 3, ATALLA_ENGINES = 4 };
/* What an engine waits for before a micro-operation: room in a scratchpad, one of the engines, or firmware. */
enum {
  ATALLA_STALL_SCRATCHPAD = 4,
  ATALLA_STALL_ISSUE = 5,
  ATALLA_STALLS = 6 /* and those of the engines before these: ATALLA_LOAD … ATALLA_VECTOR */
};

/* What the last run of an instruction took on the device. */
typedef struct {
  uint64_t begin, cycles;         /* of the device's clock, 0 when the run began; 0 cycles for what the host does */
  uint64_t busy[ATALLA_ENGINES];  /* cycles of each engine */
  uint64_t stalls[ATALLA_STALLS]; /* cycles that engines waited, by what for; engines wait at the same time */
  uint64_t operations[ATALLA_ENGINES]; /* micro-operations of each engine */
  uint64_t in_bytes, out_bytes;        /* that the DMA moved from and to memory */
  uint64_t descriptors;                /* of the DMA */
  uint64_t macs;                       /* products that are added up, on whatever engine */
  uint64_t matrix_cycles; /* of busy[ATALLA_MATRIX]: from first weights to last sums, without moving sums */
  uint64_t unit_edges;    /* the same as the caller's matrix unit counted it; 0 without one */
  uint64_t peak_bytes[2]; /* most that was handed out of each scratchpad at once */
  uint64_t room_bytes;    /* of each scratchpad that are used: at most scratchpad_bytes */
  uint64_t tiles;
  uint32_t frames;       /* frames of rows and results that have room at once, see atalla_tile_cost */
  uint32_t ring;         /* tiles whose results have room in a frame; 0: each has a frame of its own */
  uint32_t parts;        /* tiles whose rows have room in a frame; 0: all rows of a frame have */
  uint32_t weight_slots; /* weights that have room at once, from their load to the last product */
  uint32_t is_host;      /* 1: the host computed it */
  uint32_t reserved;
} atalla_counters;

/* Costs of tiles that follow each other and cost the same: cycles of each engine, whenever they were. */
typedef struct {
  uint32_t instruction, count;
  uint64_t cycles[ATALLA_ENGINES];
  uint32_t operations[ATALLA_ENGINES];
  uint64_t in_bytes, out_bytes; /* of the DMA */
  uint32_t in_descriptors, out_descriptors;
  uint64_t late_cycles;   /* of the DMA's loads: what only the vector unit waits for */
  uint64_t spread_cycles; /* of the vector unit's: before the matrix unit's */
  uint64_t before_spread; /* of the DMA's loads: what that waits for */
  uint64_t early_cycles;  /* of the DMA's loads: those before its frame gets room, of weights that stay */
  uint64_t bias_cycles;   /* of the matrix unit's: sums that are set to the bias, before there are rows */
  uint64_t drain_cycles;  /* of the matrix unit's: sums that leave for where a result before them was */
  uint32_t begins_frame;  /* 1: its rows and results get room, until the tile before the next such is stored */
  uint32_t loads_weights; /* 1: its weights get room, until the tile before the next such is multiplied */
} atalla_tile_cost;

/* A micro-operation, or with the engine ATALLA_ENGINES a region of a scratchpad, from when it was handed out until it
 * was free again. */
typedef struct {
  uint64_t begin, end;
  uint32_t instruction, tile;
  uint64_t bytes;        /* that the DMA moved; of a region its size */
  uint64_t offset;       /* of a region in its scratchpad */
  uint32_t engine, kind; /* see atalla_device_kind */
  uint32_t scratchpad;   /* of a region: 0 or 1 */
  uint32_t read_count, write_count;
  uint32_t regions[10]; /* numbers of the events of the regions that it reads, and behind them of those it writes */
} atalla_event;

/* The name of a kind of micro-operation: "DMA.LD", "MXU.MM"; NULL where there is none of that number. */
ATALLA_API const char* atalla_device_kind(uint32_t kind);

/* Of the last run; each returns how many there are, and fills in `count` of them at most. 0 without a device. */
ATALLA_API size_t atalla_device_counters(const atalla_context* context, atalla_counters* rows, size_t count);
ATALLA_API size_t atalla_device_tiles(const atalla_context* context, atalla_tile_cost* rows, size_t count);
ATALLA_API size_t atalla_device_events(const atalla_context* context, atalla_event* rows, size_t count);

/* Brings what is kept from run to run back to what it is at first. After a run that failed it may be partly changed. */
ATALLA_API int atalla_reset(atalla_context* context);

/* Nanoseconds of each instruction in the last run of a context with `profile`; returns how many there are. */
ATALLA_API size_t atalla_times(const atalla_context* context, uint64_t* nanoseconds, size_t count);

/* Buffers that are needed for some steps, and where they lie in an arena. */
typedef struct {
  size_t struct_size;
  size_t count;
  const uint64_t* size;         /* bytes of each */
  const uint32_t *first, *last; /* steps from which and to which it is needed, both included */
  uint64_t align;               /* divides every offset */
  uint64_t nodes;               /* of the exact search at most; 0: none. Nothing else decides what is found, but for */
  uint64_t deadline_ns;         /* the nanoseconds after which it ends; 0: never */
  uint64_t* offset;             /* made: bytes, one a buffer */
  uint64_t peak;                /* made: bytes of the arena */
  uint64_t bound;               /* made: bytes below which no plan can be; where it is `peak`, the plan is optimal */
  uint64_t searched;            /* made: nodes */
} atalla_planning;

/* Plans an arena: by best fit, and where that is above the most bytes alive at once, by a search. */
ATALLA_API int atalla_plan(atalla_planning* planning, atalla_error* error);

/* The instruction set that a context uses. */
ATALLA_API const char* atalla_isa(const atalla_context* context);

#ifdef __cplusplus
}
#endif
#endif
