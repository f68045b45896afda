// A block of an EW chain: its values are read, all steps are taken over them, and the result is stored.
//
// A value of the chain is a row of floats or of int64s.
#pragma once

#include <stdatomic.h>

#include "int8_pair.h"
#include "steps.h"

enum {
  MOST_VALUES = AT_SOURCES + AT_STEPS,
  LEAST_BLOCK = 128,  // elements of each value: where there are as many values as can be
  MOST_BLOCK = 512    // and where there are few
};

typedef struct {
  spread spread;  // first, so that its pointer is the job's
  ew_step steps[AT_STEPS];
  unsigned count, sources;
  size_t block;                // elements of each value, whole vectors
  uint8_t narrow[AT_SOURCES];  // whether a source of int8 is only dequantised: it is read as floats
  uint8_t is_narrow;           // whether what is stored as int8 stays in floats until then
  uint8_t is_pair;             // whether all of it is `pair`
  int8_pair pair;
  atomic_int status;
} ew_job;

// The blocks of all values.
typedef struct {
  int64_t wholes[MOST_VALUES * LEAST_BLOCK];  // or floats, which take half of a block
} ew_values;

INLINE size_t block_of_values(size_t values) {
  const size_t most = MOST_VALUES * LEAST_BLOCK / (values ? values : 1);
  return most < MOST_BLOCK ? most / VL * VL : MOST_BLOCK;
}

INLINE int64_t* ew_wholes(const ew_job* job, ew_values* values, unsigned v) { return values->wholes + v * job->block; }

INLINE float* ew_floats(const ew_job* job, ew_values* values, unsigned v) {
  return (float*)(void*)ew_wholes(job, values, v);
}

INLINE void load_narrow(float* to, const int8_t* from, int64_t step, size_t count) {
  size_t i = 0;
  for (; step == 1 && i + VL <= count; i += VL) vstore(to + i, vload_int8(from + i));
  for (; i < count; ++i) to[i] = from[(int64_t)i * step];
}

INLINE void store_narrow(int8_t* to, const float* from, int64_t step, size_t count) {
  size_t i = 0;
  for (; step == 1 && i + VL <= count; i += VL) vstore_int8(to + i, vload(from + i));
  for (; i + VL <= count; i += VL) {
    const vb made = vto_int8(vload(from + i));
    for (size_t lane = 0; lane < VL; ++lane) to[(int64_t)(i + lane) * step] = made[lane];
  }
  for (; i < count; ++i) to[(int64_t)i * step] = (int8_t)to_whole((double)from[i]);
}

// Reads `count` elements of source `v` into its block from element `into` on.
static void ew_load(const ew_job* job, const walk* w, unsigned v, const char* from, size_t into, size_t count,
                    ew_values* values) {
  const uint8_t dtype = w->dtype[v + 1];
  const int64_t step = w->stride[v + 1][w->rank - 1] * (int64_t)w->size[v + 1];
  float* floats = ew_floats(job, values, v) + into;
  if (dtype == AT_F32 && step == 4) {
    memcpy(floats, from, count * sizeof(float));
  } else if (dtype == AT_F32 && step == 0) {
    const float same = load_float(from, AT_F32);
    for (size_t i = 0; i < count; ++i) floats[i] = same;
  } else if (job->narrow[v]) {
    load_narrow(floats, (const int8_t*)from, step, count);
  } else if (is_float(dtype)) {
    for (size_t i = 0; i < count; ++i) floats[i] = load_float(from + (int64_t)i * step, dtype);
  } else {
    load_wholes(ew_wholes(job, values, v) + into, from, dtype, step, count);
  }
}

INLINE int has_zero(const int64_t* at, size_t count) {
  int found = 0;
  for (size_t i = 0; i < count; ++i) found |= at[i] == 0;
  return found;
}

// What is the same in all blocks.
static void ew_constants(const ew_job* job, ew_values* values) {
  for (unsigned n = 0; n < job->count; ++n) {
    const ew_step* s = &job->steps[n];
    if (s->code == AT_STEP_FLOAT) {
      float *floats = ew_floats(job, values, job->sources + n), constant;
      memcpy(&constant, &s->constant, sizeof constant);
      for (size_t i = 0; i < job->block; i += VL) vstore(floats + i, vset(constant));
    } else if (s->code == AT_STEP_INT) {
      int64_t* wholes = ew_wholes(job, values, job->sources + n);
      for (size_t i = 0; i < job->block; ++i) wholes[i] = s->constant;
    }
  }
}

// `a` holds floats or whole numbers.
INLINE void step_dequantize(const void* a, const float* scale, const float* zero, int narrow, float* out,
                            size_t count) {
  const float* floats = a;
  const int64_t* wholes = a;
  if (narrow) {
    for (size_t i = 0; i < count; i += VL) {
      vstore(out + i, (vload(floats + i) - vload(zero + i)) * vload(scale + i));
    }
  } else {
    for (size_t i = 0; i < count; ++i) out[i] = ((float)wholes[i] - zero[i]) * scale[i];
  }
}

INLINE void step_quantize(const float* a, const float* factor, const float* zero, float* out, size_t count) {
  for (size_t i = 0; i < count; i += VL) {
    const vf x = vnearest(vload(a + i) * vload(factor + i)) + vload(zero + i);
    vstore(out + i, vceil_at(vfloor_at(x, vset(INT8_MIN)), vset(INT8_MAX)));
  }
}

// Takes all steps over a block; the last one's result goes to `result` where there is one.
static void ew_steps(ew_job* job, ew_values* values, const void** rows, float* result, size_t count) {
  for (unsigned n = 0; n < job->count; ++n) {
    const ew_step* s = &job->steps[n];
    float* floats = ew_floats(job, values, job->sources + n);
    int64_t* wholes = ew_wholes(job, values, job->sources + n);
    float* out = result && n + 1 == job->count ? result : floats;
    rows[job->sources + n] = out;
    if (s->code == AT_STEP_FLOAT) {
      if (out == result) memcpy(result, floats, count * sizeof(float));
    } else if (s->code == AT_STEP_INT) {
      continue;
    } else if (s->code == AT_STEP_DEQUANTIZE) {
      const int narrow = s->a < job->sources && job->narrow[s->a];
      step_dequantize(rows[s->a], rows[s->b], rows[s->c], narrow, out, count);
    } else if (s->code == AT_STEP_QUANTIZE) {
      float whole[MOST_BLOCK];
      const int is_last = n + 1 == job->count && job->is_narrow;
      step_quantize(rows[s->a], rows[s->b], rows[s->c], is_last ? floats : whole, count);
      for (size_t i = 0; i < count && !is_last; ++i) wholes[i] = to_whole((double)whole[i]);
    } else if (s->code == AT_STEP_TO_FLOAT) {
      const int64_t* a = rows[s->a];
      for (size_t i = 0; i < count; ++i) out[i] = (float)a[i];
    } else if (s->code == AT_STEP_WHERE) {
      const int64_t* a = rows[s->a];
      if (s->as_float) {
        const float *b = rows[s->b], *c = rows[s->c];
        for (size_t i = 0; i < count; ++i) out[i] = a[i] ? b[i] : c[i];
      } else {
        const int64_t *b = rows[s->b], *c = rows[s->c];
        for (size_t i = 0; i < count; ++i) wholes[i] = a[i] ? b[i] : c[i];
      }
    } else if (s->as_float) {
      step_floats(s, out, rows[s->a], rows[s->b], count);
    } else if (s->from_float) {
      step_compare(s, wholes, rows[s->a], rows[s->b], count);
    } else {
      const int64_t *a = rows[s->a], *b = rows[s->b];
      if ((s->code == AT_STEP_FLOOR_DIV || s->code == AT_STEP_REMAINDER) && has_zero(b, count)) {
        atomic_store_explicit(&job->status, ATALLA_ZERO_DIVISOR, memory_order_relaxed);
      }
      step_wholes(s->code, wholes, a, b, count);
    }
  }
}

static void ew_store(const ew_job* job, const walk* w, char* dst, const void* result, size_t from, size_t count) {
  const int64_t step = w->stride[0][w->rank - 1] * (int64_t)w->size[0];
  const int as_float = job->count ? job->steps[job->count - 1].as_float : is_float(w->dtype[1]);
  const float* floats = (const float*)result + from;
  if (as_float && w->dtype[0] == AT_F32 && step == 4) {
    memcpy(dst, floats, count * sizeof(float));
    return;
  }
  if (!as_float && w->dtype[0] == AT_I64 && step == 8) {
    memcpy(dst, (const int64_t*)result + from, count * sizeof(int64_t));
    return;
  }
  if (job->is_narrow) {
    store_narrow((int8_t*)dst, floats, step, count);
    return;
  }
  for (size_t i = 0; i < count; ++i, dst += step) {
    if (!as_float) {
      store_whole(dst, w->dtype[0], ((const int64_t*)result)[from + i]);
    } else {
      store_float(dst, w->dtype[0], floats[i]);
    }
  }
}
