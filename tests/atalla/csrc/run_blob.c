// Runs a blob without Python, for sanitizers and other processors.
//
// run_blob BLOB THREADS CONTEXTS RUNS ISA INPUT... -- OUTPUT=BYTES...
//
// Each of CONTEXTS threads has its own context of the same blob, with a pool of THREADS, and runs RUNS times; all must
// give the same bytes. A call of the host fills its outputs with zeros. INPUT and OUTPUT are files of raw bytes.
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "atalla.h"

typedef struct {
  const atalla_blob* blob;
  atalla_options options;
  int runs, inputs, outputs, status;
  void **in, **out;
  const size_t* bytes;
} job;

static int host(void* user, uint32_t call, const atalla_tensor* tensors, size_t operands, size_t outputs) {
  static const size_t sizes[] = {0, 4, 8, 2, 2, 1, 1, 2, 4, 8, 1};
  (void)user;
  (void)call;
  for (size_t i = operands; i < operands + outputs; ++i) {
    const atalla_tensor* t = &tensors[i];
    int64_t index[8] = {0};
    int empty = 0;
    for (uint32_t d = 0; d < t->rank; ++d) empty |= t->shape[d] == 0;
    for (int d = empty ? -1 : 0; d >= 0;) {
      int64_t at = 0;
      for (uint32_t k = 0; k < t->rank; ++k) at += index[k] * t->strides[k];
      memset((char*)t->data + at * (int64_t)sizes[t->dtype], 0, sizes[t->dtype]);
      for (d = (int)t->rank - 1; d >= 0 && ++index[d] == t->shape[d]; --d) index[d] = 0;
    }
  }
  return 0;
}

static void* work(void* argument) {
  job* j = argument;
  atalla_error error = {.struct_size = sizeof error};
  atalla_context* context = NULL;
  j->status = atalla_context_new(j->blob, &j->options, &context, &error);
  for (int i = 0; i < j->runs && !j->status; ++i) j->status = atalla_run(context, j->in, j->out, &error);
  if (j->status) fprintf(stderr, "%s\n", error.text);
  atalla_context_free(context);
  return NULL;
}

static void* read_file(const char* path, size_t* size) {
  FILE* file = fopen(path, "rb");
  if (!file) {
    perror(path);
    exit(2);
  }
  fseek(file, 0, SEEK_END);
  *size = (size_t)ftell(file);
  rewind(file);
  void* data = aligned_alloc(64, *size ? (*size + 63) / 64 * 64 : 64);
  if (!data || fread(data, 1, *size, file) != *size) exit(2);
  fclose(file);
  return data;
}

int main(int count, char** arguments) {
  if (count < 7) return 2;
  size_t size = 0;
  void* bytes = read_file(arguments[1], &size);
  const unsigned threads = (unsigned)atoi(arguments[2]), contexts = (unsigned)atoi(arguments[3]);
  const char* isa = arguments[5][0] == '-' ? NULL : arguments[5];
  int split = 6;
  while (split < count && strcmp(arguments[split], "--") != 0) ++split;
  const int inputs = split - 6, outputs = count - split - 1;
  if (outputs < 0 || contexts < 1) return 2;
  void** in = calloc((size_t)inputs + 1, sizeof *in);
  size_t* room = calloc((size_t)outputs + 1, sizeof *room);
  for (int i = 0; i < inputs; ++i) {
    size_t length;
    void* all = read_file(arguments[6 + i], &length);
    in[i] = malloc(length ? length : 1);  // not one byte more, so that a sanitizer sees it
    memcpy(in[i], all, length);
    free(all);
  }
  char** names = arguments + split + 1;
  for (int i = 0; i < outputs; ++i) {
    char* equal = strrchr(names[i], '=');
    if (!equal) return 2;
    *equal = 0;
    room[i] = (size_t)atoll(equal + 1);
  }
  atalla_error error = {.struct_size = sizeof error};
  atalla_blob* blob = NULL;
  int status = atalla_open(bytes, size, &blob, &error);
  if (status) {
    fprintf(stderr, "%s\n", error.text);
    return 1;
  }
  job* jobs = calloc(contexts, sizeof *jobs);
  pthread_t* handles = calloc(contexts, sizeof *handles);
  for (unsigned i = 0; i < contexts; ++i) {
    void** out = calloc((size_t)outputs + 1, sizeof *out);
    for (int k = 0; k < outputs; ++k) out[k] = calloc(room[k] ? room[k] : 1, 1);
    const atalla_options options = {.struct_size = sizeof options, .threads = threads, .isa = isa, .host = host};
    jobs[i] = (job){blob, options, atoi(arguments[4]), inputs, outputs, 0, in, out, room};
    if (pthread_create(&handles[i], NULL, work, &jobs[i]) != 0) return 2;
  }
  for (unsigned i = 0; i < contexts; ++i) {
    pthread_join(handles[i], NULL);
    if (jobs[i].status) status = 1;
    for (int k = 0; k < outputs; ++k) {
      if (i && memcmp(jobs[i].out[k], jobs[0].out[k], room[k]) != 0) {
        fprintf(stderr, "context %u gives another output %d\n", i, k);
        status = 1;
      }
    }
  }
  for (int k = 0; k < outputs && !status; ++k) {
    FILE* file = fopen(names[k], "wb");
    if (!file || fwrite(jobs[0].out[k], 1, room[k], file) != room[k] || fclose(file) != 0) status = 2;
  }
  for (unsigned i = 0; i < contexts; ++i) {
    for (int k = 0; k < outputs; ++k) free(jobs[i].out[k]);
    free(jobs[i].out);
  }
  for (int i = 0; i < inputs; ++i) free(in[i]);
  atalla_close(blob);
  free(handles);
  free(jobs);
  free(in);
  free(room);
  free(bytes);
  return status;
}
