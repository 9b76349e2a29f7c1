// SPDX-License-Identifier: Apache-2.0
#include "support/tally.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <map>
#include <regex>
#include <set>
#include <sstream>

namespace fovea::test {
namespace {

struct Counts {
  int64_t passed = 0, refused = 0, rejected = 0, failed = 0;
  std::map<std::string, int64_t> reasons;  // of refusals
};

enum class State { none, planned, passed, refused, rejected };

struct Tally {
  std::map<std::string, std::map<std::string, Counts>> operations;  // by kernel family
  std::set<std::string> failures;
  const Context* context = nullptr;
  std::string test;  // the running one: gtest cannot be asked while it reports a failure
  // The call in hand.
  Counts* counts = nullptr;
  std::string label;
  State state = State::none;
  bool failed = false;
};

Tally& tally() {
  static auto* const one = new Tally;
  return *one;
}

void settle() {
  Tally& t = tally();
  if (t.state != State::none) {
    if (t.failed) {
      ++t.counts->failed;
    } else if (t.state == State::passed) {
      ++t.counts->passed;
    } else if (t.state == State::refused) {
      ++t.counts->refused;
    } else if (t.state == State::rejected) {
      ++t.counts->rejected;
    }
  }
  t.state = State::none;
  t.failed = false;
}

std::string quoted(const std::string& text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    if (static_cast<unsigned char>(c) < 0x20) {
      out += ' ';
    } else {
      out += c;
    }
  }
  return out + "\"";
}

// A JSON object or array of what `write` gives for each element.
template <class All, class Write>
std::string joined(const char* brackets, const All& all, const Write& write) {
  std::string text(1, brackets[0]);
  const char* comma = "";
  for (const auto& x : all) {
    text += comma + write(x);
    comma = ",";
  }
  return text + brackets[1];
}

std::string numbers(const Counts& c) {
  return "{\"passed\":" + std::to_string(c.passed) + ",\"refused\":" + std::to_string(c.refused) +
         ",\"rejected\":" + std::to_string(c.rejected) + ",\"failed\":" + std::to_string(c.failed) + ",\"reasons\":" +
         joined("{}", c.reasons, [](const auto& r) { return quoted(r.first) + ":" + std::to_string(r.second); }) + "}";
}

// "<key> attention<d=64, ..> bundle 1234 bytes, .." a line.
std::set<std::string> kernel_names(const Context& context) {
  std::set<std::string> names;
  std::istringstream lines(context.kernels());
  for (std::string line; std::getline(lines, line);) {
    const size_t first = line.find(' ') + 1, close = line.find('>');
    const size_t last = close != std::string::npos ? close + 1 : line.find(' ', first);
    names.insert(line.substr(first, last - first));
  }
  return names;
}

void write_report(const char* path) {
  const Tally& t = tally();
  const auto& unit = *::testing::UnitTest::GetInstance();
  std::ofstream out(path);
  out << "{\"sources\":" << quoted(kSourceHash);
  if (t.context != nullptr) {
    const DeviceInfo info = t.context->info();
    out << ",\"card\":" << quoted(info.name) << ",\"arch\":" << quoted(info.isa)
        << ",\"driver\":" << quoted(info.driver) << ",\"nvrtc\":" << quoted(info.nvrtc)
        << ",\"bundle\":" << quoted(info.bundle) << ",\"kernels_compiled\":" << info.kernels_compiled
        << ",\"kernels\":" << joined("[]", kernel_names(*t.context), quoted);
  }
  const auto operation = [](const auto& op) {
    return quoted(op.first) + ":" + joined("{}", op.second, [](const auto& kernel) {
             return quoted(kernel.first) + ":" + numbers(kernel.second);
           });
  };
  out << ",\"operations\":" << joined("{}", t.operations, operation)
      << ",\"failures\":" << joined("[]", t.failures, quoted)
      << ",\"tests\":{\"passed\":" << unit.successful_test_count() << ",\"failed\":" << unit.failed_test_count()
      << ",\"skipped\":" << unit.skipped_test_count() << "}}\n";
  out.close();
  if (!out) std::fprintf(stderr, "FOVEA_TEST_REPORT: cannot write %s\n", path);
}

class Listener final : public ::testing::EmptyTestEventListener {
  void OnTestPartResult(const ::testing::TestPartResult& part) override {
    if (!part.failed()) return;
    Tally& t = tally();
    t.failed = true;
    t.failures.insert(t.test + (t.state == State::none ? "" : " (" + t.label + ")"));
  }
  void OnTestStart(const ::testing::TestInfo& test) override {
    tally().test = std::string(test.test_suite_name()) + "." + test.name();
  }
  void OnTestEnd(const ::testing::TestInfo&) override { settle(); }
  void OnTestProgramEnd(const ::testing::UnitTest&) override {
    for (const auto& [op, kernels] : tally().operations) {
      for (const auto& [kernel, c] : kernels) {
        std::printf("%s on %s: %lld passed, %lld refused, %lld rejected, %lld failed\n", op.c_str(), kernel.c_str(),
                    static_cast<long long>(c.passed), static_cast<long long>(c.refused),
                    static_cast<long long>(c.rejected), static_cast<long long>(c.failed));
      }
    }
    const char* path = std::getenv("FOVEA_TEST_REPORT");
    if (path != nullptr && *path != '\0') write_report(path);
    path = std::getenv("FOVEA_TEST_SAVE");
    if (path != nullptr && *path != '\0' && tally().context != nullptr) {
      const fovea_status code = fovea_context_save_kernels(tally().context->get(), path);
      std::printf("%s: %s\n", path, code == FOVEA_OK ? "saved" : fovea_last_error());
    }
  }
};

// Linked wherever a call is counted, and in place before main.
[[maybe_unused]] const bool kListening = [] {
  ::testing::UnitTest::GetInstance()->listeners().Append(new Listener);
  return true;
}();

}  // namespace

void begin_call(int32_t op, const std::string& kernel) {
  settle();
  Tally& t = tally();
  t.counts = &t.operations[fovea_op_name(op)][kernel];
  t.label = std::string(fovea_op_name(op)) + " on " + kernel;
  t.state = State::planned;
}

void call_ran() {
  if (tally().state != State::none) tally().state = State::passed;
}

void begin_uncounted_call() {
  settle();
}

void call_refused(const std::string& reason) {
  static const std::regex value(" is -?[0-9]+");  // else each value would be a reason of its own
  Tally& t = tally();
  if (t.state == State::none) return;  // of a call that is not counted
  t.state = State::refused;
  ++t.counts->reasons[std::regex_replace(reason, value, " is N")];
}

void call_rejected() {
  if (tally().state != State::none) tally().state = State::rejected;
}

void report_device(const Context& context) {
  tally().context = &context;
}

}  // namespace fovea::test
