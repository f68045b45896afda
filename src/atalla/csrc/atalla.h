/* Atalla's C ABI, version 2.
 *
 * Every function gives 0 for success, else a status; with a status it fills in `error` where one is given. Structures
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

#define ATALLA_ABI_VERSION 2u

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

typedef struct {
  size_t struct_size;
  uint32_t threads; /* 0: one; with several the first runs, 24 at most, find out what is worth sharing */
  const char* isa;  /* "amx", "vnni", "avx512", "avx2", "base"; NULL: the best that this processor has */
  atalla_host host;
  void* user;
  int profile; /* not 0: keep the time of each instruction */
  void* state; /* `state_bytes` that are kept from run to run, of the caller, reset by it; NULL: the context's own */
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

/* Returns the same program for inputs of these shapes (of `inputs`, nothing else is looked at), proved anew; to be
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

/* Brings what is kept from run to run back to what it is at first. */
ATALLA_API int atalla_reset(atalla_context* context);

/* Nanoseconds of each instruction in the last run of a context with `profile`; gives how many there are. */
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
