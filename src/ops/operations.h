// SPDX-License-Identifier: Apache-2.0
// Every operation of operations.def, for code that runs over the rows.
#pragma once

#include "ops/attention.h"
#include "ops/embed.h"
#include "ops/glu.h"
#include "ops/kv_append.h"
#include "ops/kv_copy.h"
#include "ops/matmul.h"
#include "ops/merge_states.h"
#include "ops/norm.h"
#include "ops/quantize.h"
#include "ops/rope.h"
#include "ops/sample.h"
#include "ops/verify.h"
