// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <nanobind/nanobind.h>

namespace fovea::python {

void bind_page_pool(nanobind::module_& m);

}  // namespace fovea::python
