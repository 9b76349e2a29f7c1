/* SPDX-License-Identifier: Apache-2.0
 * Every operation as C sees it: one row per row of operations.def. */
#ifndef FOVEA_TESTS_API_C_TABLE_H_
#define FOVEA_TESTS_API_C_TABLE_H_

#include "fovea/fovea.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct c_operation {
  const char* name;
  int32_t op;
  uint64_t size; /* of the parameter struct, in bytes */
  void (*init)(void* params);
  fovea_status (*call)(fovea_context* context, const void* params, const fovea_exec* exec);
} c_operation;

extern const c_operation c_operations[];
extern const int c_operation_count;

typedef struct c_struct {
  const char* name;
  uint64_t size;
  void (*init)(void* out);
} c_struct;

/* The other structs with an initialiser. */
extern const c_struct c_structs[];
extern const int c_struct_count;

/* A whole program in C: context, plan, run, destroy. Answers 0, or the number of the step that failed. */
int c_program(void);

#ifdef __cplusplus
}
#endif

#endif /* FOVEA_TESTS_API_C_TABLE_H_ */
