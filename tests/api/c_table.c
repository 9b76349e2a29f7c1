/* SPDX-License-Identifier: Apache-2.0 */
#include "api/c_table.h"

#include <string.h>

#define FOVEA_OP(name, Name, NAME, value, text)                                                   \
  static void init_##name(void* params) {                                                         \
    fovea_##name##_params_init((fovea_##name##_params*)params);                                   \
  }                                                                                               \
  static fovea_status call_##name(fovea_context* c, const void* params, const fovea_exec* exec) { \
    return fovea_##name(c, (const fovea_##name##_params*)params, exec);                           \
  }
#include "fovea/operations.def"
#undef FOVEA_OP

const c_operation c_operations[] = {
#define FOVEA_OP(name, Name, NAME, value, text) \
  {#name, FOVEA_OP_##NAME, sizeof(fovea_##name##_params), init_##name, call_##name},
#include "fovea/operations.def"
#undef FOVEA_OP
};
const int c_operation_count = (int)(sizeof c_operations / sizeof c_operations[0]);

#define INIT(name)                            \
  static void init_struct_##name(void* out) { \
    fovea_##name##_init((fovea_##name*)out);  \
  }
INIT(context_params)
INIT(device_info)
INIT(exec)
INIT(kv)
INIT(rope_config)
#define ROW(name) \
  { #name, sizeof(fovea_##name), init_struct_##name }
const c_struct c_structs[] = {ROW(context_params), ROW(device_info), ROW(exec), ROW(kv), ROW(rope_config)};
const int c_struct_count = (int)(sizeof c_structs / sizeof c_structs[0]);

static int run_norm(fovea_context* context) {
  float x[2][3] = {{3, 0, 4}, {0, 0, 5}}, out[2][3];
  const int64_t shape[2] = {2, 3};
  fovea_norm_params params;
  fovea_plan* plan = 0;
  uint64_t scratch = 1, sync = 1, needed = 0;
  char text[256];
  fovea_norm_params_init(&params);
  params.kind = FOVEA_NORM_L2;
  params.eps = 0;
  if (fovea_tensor_packed(x, FOVEA_F32, 2, shape, &params.x) != FOVEA_OK) return 2;
  if (fovea_tensor_packed(out, FOVEA_F32, 2, shape, &params.out) != FOVEA_OK) return 3;
  if (fovea_supports(context, FOVEA_OP_NORM, &params) != FOVEA_SUPPORT_YES) return 4;
  if (fovea_plan_create(context, FOVEA_OP_NORM, &params, &plan) != FOVEA_OK) return 5;
  if (fovea_plan_workspace(plan, &scratch, &sync) != FOVEA_OK || scratch != 0 || sync != 0) return 6;
  if (fovea_plan_explain(plan, text, sizeof text, &needed) != FOVEA_OK || strlen(text) + 1 != needed) return 7;
  if (fovea_plan_run(plan, &params, 0) != FOVEA_OK) return 8;
  fovea_plan_destroy(plan);
  if (out[0][0] != 0.6f || out[0][1] != 0 || out[0][2] != 0.8f || out[1][2] != 1) return 9;
  return 0;
}

int c_program(void) {
  fovea_context_params context_params;
  fovea_context* context = 0;
  int step;
  fovea_context_params_init(&context_params);
  context_params.threads = 2;
  if (fovea_context_create(&context_params, &context) != FOVEA_OK) return 1;
  step = run_norm(context);
  fovea_context_destroy(context);
  return step;
}
