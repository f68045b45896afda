// Products of int8 by AVX-512's VNNI: four products in each of 16 lanes.
#define VL 16
#define NAME vnni
#include "kernels/narrow_template.h"
