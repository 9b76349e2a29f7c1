/* SPDX-License-Identifier: Apache-2.0
 * The C interface alone: normalises one row, (3, 4) to (0.6, 0.8). */
#include <stdio.h>

#include "fovea/fovea.h"

int main(void) {
  float row[2] = {3, 4};
  const int64_t shape[2] = {1, 2};
  fovea_context_params settings;
  fovea_context* context = 0;
  fovea_norm_params norm;
  fovea_status status;

  fovea_context_params_init(&settings);
  settings.threads = 1;
  status = fovea_context_create(&settings, &context);
  if (status == FOVEA_OK) {
    fovea_norm_params_init(&norm);
    norm.kind = FOVEA_NORM_L2;
    status = fovea_tensor_packed(row, FOVEA_F32, 2, shape, &norm.x);
    norm.out = norm.x;
    if (status == FOVEA_OK) status = fovea_norm(context, &norm, 0);
  }
  if (status != FOVEA_OK) fprintf(stderr, "%s: %s\n", fovea_status_name(status), fovea_last_error());
  fovea_context_destroy(context);
  printf("C, fovea %s: %.3f %.3f\n", fovea_version(), row[0], row[1]);
  return row[0] > 0.599f && row[0] < 0.601f && row[1] > 0.799f && row[1] < 0.801f ? 0 : 1;
}
