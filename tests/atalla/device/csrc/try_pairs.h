// Pairs: random hardware and programs; each ends, or is refused and runs in what the refusal names.
#pragma once

#include <signal.h>
#include <stdio.h>
#include <unistd.h>

#include "atalla.h"
#include "programs.h"
#include "random_views.h"

enum { PATIENCE_S = 20, LARGER = 8, WITH_DATA = 16 };  // seconds until a pair hangs; one in so many pairs

static const char NAMED[] = "runs has ";  // what stands before the bytes that a refusal names

typedef struct {
  const char* path;
  char* bytes;
  memory m;
  char** wanted;  // outputs by the kernels
  size_t* sizes;
  uint32_t rows;    // instructions
  uint64_t effort;  // micro-operations on usual hardware
} trial;

typedef struct {
  const char* isa;
  uint64_t seed;
  trial* trials;
  size_t count, ran, refused, larger, with_data;
  atalla_counters* rows;  // enough for every program
} pairing;

// For the handler of the signal, which may do little else than write.
static char now[400];

static void hangs(int signal) {
  static const char text[] = "hangs: ";
  (void)signal;
  if (write(2, text, sizeof text - 1) < 0 || write(2, now, strlen(now)) < 0) _exit(4);
  _exit(3);
}

static inline void found(const char* text) {
  fprintf(stderr, "%s: %s\n", text, now);
  exit(3);
}

// By the kernels where there is no hardware; on hardware without outputs it moves no data. Gives the bytes of the
// scratchpad that a refusal names, else 0.
static inline uint64_t run_on(const pairing* p, trial* t, const atalla_hardware* h, char** outputs) {
  const atalla_options options = {.struct_size = sizeof options,
                                  .isa = p->isa,
                                  .hardware = h,
                                  .device_flags = outputs ? ATALLA_DEVICE_POISON : ATALLA_DEVICE_DRY};
  atalla_context* context;
  atalla_error error = {.struct_size = sizeof error};
  const int status = atalla_context_new(t->m.blob, &options, &context, &error);
  if (h && status == ATALLA_TOO_SMALL) {
    const char* named = strstr(error.text, NAMED);
    const uint64_t bytes = named ? strtoull(named + sizeof NAMED - 1, NULL, 10) : 0;
    if (bytes <= h->scratchpad_bytes) found(error.text);
    return bytes;
  }
  if (status != ATALLA_OK) found(error.text);
  for (uint32_t i = 0; outputs && i < t->m.blob->output_count; ++i) {
    if (outputs[i]) memset(outputs[i], 0, t->sizes[i]);
  }
  if (atalla_run(context, (void**)t->m.inputs, (void**)outputs, &error) != ATALLA_OK) found(error.text);
  if (h) atalla_device_counters(context, p->rows, t->rows);
  atalla_context_free(context);
  return 0;
}

static inline trial trial_of(const pairing* p, const char* path) {
  FILE* file = fopen(path, "rb");
  if (!file) exit(2);
  size_t size;
  trial t = {.path = path, .bytes = read_bytes(file, &size)};
  atalla_blob* blob;
  if (atalla_open_trusted(t.bytes, size, &blob, NULL) != ATALLA_OK) exit(2);
  t.rows = blob->insn_count;
  t.m.blob = blob;
  t.m.inputs = calloc(blob->input_count + 1u, sizeof *t.m.inputs);
  t.m.outputs = calloc(blob->output_count + 1u, sizeof *t.m.outputs);
  t.wanted = calloc(blob->output_count + 1u, sizeof *t.wanted);
  t.sizes = calloc(blob->output_count + 1u, sizeof *t.sizes);
  for (uint32_t i = 0; i < blob->input_count; ++i) t.m.inputs[i] = read_bytes(file, &size);
  fclose(file);
  for (uint32_t i = 0; i < blob->tensor_count; ++i) {
    const at_tensor* one = &blob->tensors[i];
    if (one->root != i || one->space != AT_OUTPUT) continue;
    t.sizes[one->place] = one->bytes;
    t.m.outputs[one->place] = calloc(one->bytes + 1, 1);
    t.wanted[one->place] = calloc(one->bytes + 1, 1);
  }
  run_on(p, &t, NULL, t.wanted);
  return t;
}

static inline void close_trial(trial* t) {
  for (uint32_t i = 0; i < t->m.blob->input_count; ++i) free(t->m.inputs[i]);
  for (uint32_t i = 0; i < t->m.blob->output_count; ++i) {
    free(t->m.outputs[i]);
    free(t->wanted[i]);
  }
  free(t->m.inputs);
  free(t->m.outputs);
  free(t->wanted);
  free(t->sizes);
  atalla_close((atalla_blob*)(uintptr_t)t->m.blob);
  free(t->bytes);
}

// Hardware that can be, its extremes among it.
static inline atalla_hardware any_hardware(made* m) {
  atalla_hardware h;
  do {
    h = (atalla_hardware){
        .struct_size = sizeof h,
        .clock_mhz = 1000,
        .array = ONE_OF(m, uint32_t, 8, 16, 32, 64),
        .accumulator_rows = ONE_OF(m, uint32_t, 72, 73, 100, 1024, 65536),
        .lanes = ONE_OF(m, uint32_t, 1, 7, 32, 4096),
        .scratchpad_bytes = ONE_OF(m, uint64_t, 32, 33, 34, 40, 48, 64, 80, 96, 256, 1024, 4096) << 10,
        .banks = ONE_OF(m, uint32_t, 1, 2, 16, 32, 512, 1024),
        .align = ONE_OF(m, uint32_t, 16, 32, 64, 1024, 4096),
        .dma_bytes_per_cycle = ONE_OF(m, uint32_t, 1, 5, 32, 4096),
        .dma_latency_cycles = ONE_OF(m, uint32_t, 0, 3, 64, 1000000),
        .queue = ONE_OF(m, uint32_t, 1, 2, 5, 16, 4096),
        .issue_cycles = ONE_OF(m, uint32_t, 0, 1, 4, 10000),
        .matrix_f32_factor = ONE_OF(m, uint32_t, 1, 4, 64),
        .vector_cycles = {ONE_OF(m, uint32_t, 1, 10000), ONE_OF(m, uint32_t, 1, 8, 10000),
                          ONE_OF(m, uint32_t, 1, 16, 10000), ONE_OF(m, uint32_t, 1, 2, 10000)},
        .vector_int8_factor = ONE_OF(m, uint32_t, 1, 2, 4),
    };
  } while (atalla_hardware_check(&h, NULL) != ATALLA_OK);
  return h;
}

// Engines work no longer than there is time, nor at two things; and at any time one of them works, or firmware issues:
// there is no longer a time in which all wait for each other. Gives all cycles.
static inline uint64_t cycles_of(const pairing* p, const trial* t, const atalla_hardware* h) {
  uint64_t clock = 0;
  for (uint32_t i = 0; i < t->rows; ++i) {
    const atalla_counters* row = &p->rows[i];
    uint64_t work = 0;
    if (row->cycles && row->begin != clock) found("an instruction does not begin when the one before it ends");
    for (int engine = 0; engine < ATALLA_ENGINES; ++engine) {
      if (row->busy[engine] > row->cycles) found("an engine is busy for longer than there is time");
      work += row->busy[engine] + row->operations[engine] * h->issue_cycles;
    }
    if (row->cycles > work) found("nobody works for a while");
    if (row->peak_bytes[0] > row->room_bytes || row->peak_bytes[1] > row->room_bytes) found("more than there is room");
    clock += row->cycles;
  }
  return clock;
}

static inline void find_effort(const pairing* p, trial* t) {
  atalla_hardware usual = {.struct_size = sizeof usual};
  atalla_hardware_default(&usual);
  snprintf(now, sizeof now, "usual hardware, %s\n", t->path);
  alarm(PATIENCE_S);
  if (run_on(p, t, &usual, NULL)) found("refused on usual hardware");
  for (uint32_t i = 0; i < t->rows; ++i) {
    for (int engine = 0; engine < ATALLA_ENGINES; ++engine) t->effort += p->rows[i].operations[engine];
  }
}

static inline void try_pair(pairing* p, uint64_t number) {
  made m = {.state = (p->seed << 32) + number};
  m.state = next(&m);
  trial *t = &p->trials[below(&m, (int64_t)p->count)], *other = &p->trials[below(&m, (int64_t)p->count)];
  if (other->effort < t->effort) t = other;  // few programs take most of the time: of two the smaller one
  atalla_hardware h = any_hardware(&m);
  char** outputs = number % WITH_DATA == 0 ? t->m.outputs : NULL;
  snprintf(now, sizeof now, "pair %llu of seed %llu, of %s\n", (unsigned long long)number, (unsigned long long)p->seed,
           t->path);
  alarm(PATIENCE_S);
  const uint64_t bytes = run_on(p, t, &h, outputs);
  if (bytes) {
    ++p->refused;
    h.scratchpad_bytes = bytes;
    if (run_on(p, t, &h, outputs)) found("refused in what was named, too");
  }
  const uint64_t cycles = cycles_of(p, t, &h);
  ++p->ran;
  for (uint32_t i = 0; outputs && i < t->m.blob->output_count; ++i) {
    if (outputs[i] && memcmp(outputs[i], t->wanted[i], t->sizes[i]) != 0) found("other bits than the kernels'");
  }
  p->with_data += outputs != NULL;
  if (number % LARGER) return;
  h.scratchpad_bytes *= 4;
  if (run_on(p, t, &h, NULL) || cycles_of(p, t, &h) > cycles) found("more cycles with four times the scratchpad");
  ++p->larger;
}

// Tries so many pairs from a number on; each is made by the seed and its number alone.
static inline pairing try_pairs(const char* isa, uint64_t seed, uint64_t first, uint64_t count, char** paths,
                                size_t programs) {
  pairing p = {
      .isa = isa[0] == '-' ? NULL : isa, .seed = seed, .trials = calloc(programs, sizeof(trial)), .count = programs};
  uint32_t most = 0;
  signal(SIGALRM, hangs);
  for (size_t i = 0; i < programs; ++i) {
    p.trials[i] = trial_of(&p, paths[i]);
    if (p.trials[i].rows > most) most = p.trials[i].rows;
  }
  p.rows = calloc(most, sizeof *p.rows);
  for (size_t i = 0; i < programs; ++i) find_effort(&p, &p.trials[i]);
  for (uint64_t number = first; number < first + count; ++number) try_pair(&p, number);
  alarm(0);
  for (size_t i = 0; i < programs; ++i) close_trial(&p.trials[i]);
  free(p.trials);
  free(p.rows);
  return p;
}
