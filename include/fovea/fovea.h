/* SPDX-License-Identifier: Apache-2.0
 * Fovea: kernels for LLM inference. The C interface, also the definitions under the C++ face fovea.hpp.
 * Needs nothing but <stdint.h>.
 */
#ifndef FOVEA_FOVEA_H_
#define FOVEA_FOVEA_H_

#define FOVEA_VERSION_MAJOR 0
#define FOVEA_VERSION_MINOR 1
#define FOVEA_VERSION_PATCH 0

#include "fovea/core.h"
#include "fovea/dlpack.h"
#include "fovea/kv.h"
#include "fovea/page_pool.h"
#include "fovea/params.h"

#endif /* FOVEA_FOVEA_H_ */
