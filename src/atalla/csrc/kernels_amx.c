// Products of int8 and of bfloat16 by AMX: tiles of 16 rows by 64 bytes of depth by 16 columns.
#define VL 16
#define NAME amx
#include "kernels/narrow_template.h"
