// SPDX-License-Identifier: Apache-2.0
// Counts what the calls on a device came to, by operation and kernel family. Where FOVEA_TEST_REPORT names a file, it
// is written there as JSON when the tests end; tools/test_gpu.py joins such files to
// results/gpu-conformance-<card>.json.
#pragma once

#include <cstdint>
#include <string>

#include "fovea/fovea.hpp"

namespace fovea::test {

// A digest of src/, include/, tests/conformance, tests/oracle and tests/support at build time: tools/source_hash.py.
extern const char* const kSourceHash;

// From here to the next call or the end of the test a failed expectation is this call's. What came of it is said next;
// a plan that was only made counts as nothing.
void begin_call(int32_t op, const std::string& kernel);
void begin_uncounted_call();                   // on the CPU
void call_ran();                               // and passed, unless an expectation fails
void call_refused(const std::string& reason);  // planning has no kernel for it
void call_rejected();                          // an error, as the tests of wrong calls demand

// The context whose device and kernels the report names, called when the tests end.
void report_device(const Context& context);

}  // namespace fovea::test
