// A libFuzzer target: any bytes are loaded; what the loader finds sound, and is small enough, is run by the kernels and
// on the simulated device.
//
// Without libFuzzer it replays: fuzz_blob [-mutations=N] FILE..., each file as it is and N times mutated.
#include <math.h>
#include <stdio.h>

#include "mutate.h"

static const uint64_t MOST_MEMORY = 1 << 18;
static const double MOST_WORK = 3e6;

static double extent(const at_tensor* t) {
  double made = 1;
  for (int i = 0; i < t->rank; ++i) made *= (double)t->dim[i];
  return made;
}

// A guess from above of what a run computes.
static double work(const atalla_blob* blob) {
  double sum = 0;
  for (uint32_t i = 0; i < blob->insn_count; ++i) {
    const at_insn* insn = &blob->insns[i];
    double all = insn->dst == AT_NOTHING ? 1 : extent(&blob->tensors[insn->dst]), inner = 1 + insn->words;
    for (unsigned s = 0; s < insn->sources; ++s) {
      const uint32_t number = at_u32(blob->operands + 4 * ((size_t)insn->first_source + s));
      if (number == AT_NOTHING) continue;
      const at_tensor* t = &blob->tensors[number];
      all += extent(t);
      for (int d = 0; d < t->rank; ++d) inner = fmax(inner, (double)t->dim[d]);
      if (t->layout != AT_STRIDED) inner = fmax(inner, (double)t->dim[1] * (t->rank > 2 ? (double)t->dim[2] : 1));
    }
    if (insn->op == AT_OP_ATTENTION) inner *= inner;
    if (insn->op == AT_OP_POOL2D) {
      const uint8_t* words = blob->words + 8 * (size_t)insn->first_word;
      inner = (double)at_u64(words + 8 * AT_POOL2D_KERNEL_H) * (double)at_u64(words + 8 * AT_POOL2D_KERNEL_W);
    }
    sum += all * inner;
  }
  return sum;
}

static int host(void* user, uint32_t call, const atalla_tensor* tensors, size_t operands, size_t outputs) {
  (void)user, (void)call;
  for (size_t i = 0; i < operands + outputs; ++i) {
    const atalla_tensor* t = &tensors[i];
    int empty = 0;
    int64_t last = 0;
    for (uint32_t d = 0; d < t->rank; ++d) {
      empty |= t->shape[d] == 0;
      last += (t->shape[d] - 1) * t->strides[d];
    }
    if (empty) continue;
    volatile char* ends[2] = {t->data, (char*)t->data + last * (int64_t)at_size((uint8_t)t->dtype)};
    for (int k = 0; k < 2; ++k) {  // every corner is there
      if (i < operands) (void)*ends[k];
      if (i >= operands) *ends[k] = 0;
    }
  }
  return 0;
}

// The bytes of an input or an output (they count behind inputs), as whoever calls learns them; 0 for what is no tensor.
static uint64_t told_bytes(const atalla_blob* blob, uint32_t i) {
  atalla_tensor t = {.struct_size = sizeof t};
  if (i < blob->input_count) {
    atalla_describe_input(blob, i, &t);
  } else {
    atalla_describe_output(blob, i - blob->input_count, &t);
  }
  for (uint32_t d = 0; d < t.rank; ++d) {
    if (t.shape[d] == 0) return 0;
  }
  uint64_t last = 0;
  for (uint32_t d = 0; d < t.rank; ++d) last += (uint64_t)(t.shape[d] - 1) * (uint64_t)t.strides[d];
  return t.dtype ? (last + 1) * at_size((uint8_t)t.dtype) : 0;
}

// Any hardware that there can be, chosen by the bytes of a file.
static atalla_hardware hardware_of(const uint8_t* data, size_t size) {
  uint32_t chosen = 2166136261u;
  for (size_t i = 0; i < size; ++i) chosen = (chosen ^ data[i]) * 16777619u;
  atalla_hardware h = {.struct_size = sizeof h};
  do {
    atalla_hardware_default(&h);
    for (int i = 0; i < 3; ++i, chosen = chosen * 1664525u + 1013904223u) {
      const uint32_t power = chosen >> 28;
      if (chosen >> 8 & 1) h.array = 8u << (power & 3);
      if (chosen >> 9 & 1) h.lanes = 1 + (power * power);
      if (chosen >> 10 & 1) h.scratchpad_bytes = (uint64_t)32768 << (power & 3);
      if (chosen >> 11 & 1) h.banks = 1u << (power & 7);
      if (chosen >> 12 & 1) h.align = 16u << (power & 7);
      if (chosen >> 13 & 1) h.accumulator_rows = 72 + power * 9;
      if (chosen >> 14 & 1) h.queue = 1 + power;
      if (chosen >> 15 & 1) h.vector_int8_factor = 1u << (power & 1);
    }
  } while (atalla_hardware_check(&h, NULL) != ATALLA_OK);
  return h;
}

static void run(const atalla_blob* blob, const char* isa, const atalla_hardware* hardware, uint32_t flags) {
  const uint32_t count = blob->input_count + blob->output_count;
  uint64_t memory = blob->arena_bytes + blob->state_bytes;
  if (memory > MOST_MEMORY || blob->tensor_count > 4096 || work(blob) > MOST_WORK) return;
  void** places = calloc(count + 1, sizeof *places);
  for (uint32_t i = 0; i < count; ++i) {
    if (at_u32(blob->io + 16 * (size_t)i)) continue;
    const uint64_t bytes = told_bytes(blob, i);
    memory += bytes;
    if (memory > MOST_MEMORY) break;
    places[i] = malloc(bytes ? bytes : 1);
    memset(places[i], 0x3f, bytes);
  }
  atalla_error error = {.struct_size = sizeof error};
  const atalla_options options = {
      .struct_size = sizeof options,
      .threads = 1,
      .isa = isa,
      .host = host,
      .hardware = hardware,
      .device_flags = flags,
  };
  atalla_context* context = NULL;
  if (memory <= MOST_MEMORY && atalla_context_new(blob, &options, &context, &error) == ATALLA_OK) {
    atalla_run(context, places, places + blob->input_count, &error);
  }
  atalla_context_free(context);
  for (uint32_t i = 0; i < count; ++i) free(places[i]);
  free(places);
}

// Runs a blob with symbols for its example's sizes and more.
static void run_specialized(const atalla_blob* blob, int64_t more) {
  atalla_info info = {.struct_size = sizeof info};
  if (atalla_describe(blob, &info) != ATALLA_OK || !info.symbols || info.inputs > 8) return;
  atalla_tensor inputs[8];
  int64_t shapes[8][AT_DIMS];
  for (uint32_t i = 0; i < info.inputs; ++i) {
    inputs[i] = (atalla_tensor){.struct_size = sizeof *inputs};
    atalla_describe_input(blob, i, &inputs[i]);
    for (uint32_t d = 0; d < inputs[i].rank; ++d) shapes[i][d] = inputs[i].shape[d] + more;
    inputs[i].shape = shapes[i];
  }
  atalla_error error = {.struct_size = sizeof error};
  atalla_blob* made = NULL;
  if (atalla_specialize(blob, inputs, info.inputs, &made, &error) != ATALLA_OK) return;
  run(made, NULL, NULL, 0);
  atalla_close(made);
}

static bool holds_int8(const atalla_blob* blob) {
  for (uint32_t i = 0; i < blob->insn_count; ++i) {
    const uint16_t op = blob->insns[i].op;
    if (op == AT_OP_QGEMM || op == AT_OP_QCONV2D) return true;
  }
  return false;
}

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  atalla_error error = {.struct_size = sizeof error};
  atalla_blob* blob = NULL;
  int status = atalla_open(data, size, &blob, &error);
  if (status == AT_BAD_HOST) status = atalla_open_trusted(data, size, &blob, &error);
  if (status == ATALLA_OK) {
    run(blob, NULL, NULL, 0);
    run(blob, "base", NULL, 0);
    if (holds_int8(blob)) {  // whose products have sets of their own
      run(blob, "vnni", NULL, 0);
      run(blob, "avx2", NULL, 0);
    }
    const atalla_hardware hardware = hardware_of(data, size);
    run(blob, NULL, &hardware, ATALLA_DEVICE_POISON | ATALLA_DEVICE_EVENTS);
    run(blob, NULL, &hardware, ATALLA_DEVICE_DRY);
    for (int64_t more = 0; more < 3; ++more) run_specialized(blob, more * more);
    atalla_close(blob);
  }
  return 0;
}

#ifdef FUZZER
size_t LLVMFuzzerMutate(uint8_t* data, size_t size, size_t room);

size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t room, unsigned seed) {
  if (seed % 64 == 0) return LLVMFuzzerMutate(data, size, room);
  if (seed % 64 < 4) {
    size = LLVMFuzzerMutate(data, size, room);
    sign(data, size);
    return size;
  }
  const size_t made = mutate(data, size, room, seed);
  return made ? made : LLVMFuzzerMutate(data, size, room);
}

// A blob with one section of another.
size_t LLVMFuzzerCustomCrossOver(const uint8_t* a, size_t a_size, const uint8_t* b, size_t b_size, uint8_t* out,
                                 size_t room, unsigned seed) {
  whole one, other;
  if (!take_apart(a, a_size, &one)) return 0;
  if (!take_apart(b, b_size, &other)) {
    drop(&one);
    return 0;
  }
  if (one.count && other.count) {
    const piece given = other.pieces[seed % other.count];
    for (uint32_t i = 0; i < one.count; ++i) {
      piece* p = &one.pieces[i];
      if (memcmp(p->name, given.name, 4) != 0) continue;
      free(p->data);
      p->size = given.size;
      p->data = malloc(p->size + 4096);
      memcpy(p->data, given.data, p->size);
    }
  }
  const size_t made = put_together(&one, out, room);
  drop(&one);
  drop(&other);
  return made;
}
#else
static int replay(const char* path, unsigned long mutations) {
  FILE* file = fopen(path, "rb");
  if (!file) return 2;
  fseek(file, 0, SEEK_END);
  const size_t size = (size_t)ftell(file), room = size + 65536;
  rewind(file);
  uint8_t *data = malloc(size + 1), *changed = malloc(room);
  if (fread(data, 1, size, file) != size) return 2;
  fclose(file);
  for (unsigned long i = 0; i <= mutations; ++i) {
    memcpy(changed, data, size);
    const size_t length = i ? mutate(changed, size, room, i) : size;
    uint8_t* exact = malloc(length ? length : 1);
    memcpy(exact, changed, length);
    LLVMFuzzerTestOneInput(exact, length);
    free(exact);
  }
  free(data);
  free(changed);
  return 0;
}

int main(int count, char** arguments) {
  unsigned long mutations = 0;
  for (int i = 1; i < count; ++i) {
    if (strncmp(arguments[i], "-mutations=", 11) == 0) {
      mutations = strtoul(arguments[i] + 11, NULL, 10);
    } else if (replay(arguments[i], mutations)) {
      return 2;
    }
  }
  return 0;
}
#endif
