// SPDX-License-Identifier: Apache-2.0
// The mirror that brings the suite to a device, over a device in host memory: what it copies, and what it notices.
#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <vector>

#include "support/attention_cases.h"
#include "support/check.h"
#include "support/device_call.h"
#include "support/mirror.h"

namespace fovea::test {
namespace {

class MirrorOf : public testing::TestWithParam<bool> {
 protected:
  MirrorOf() : device_(host_device()), mirror_(*device_, GetParam()) {}
  std::byte* there(const std::byte* host) const { return static_cast<std::byte*>(mirror_.address(host)); }
  // An input of 1000 bytes, an output of 77, scratch of 5.
  void prepare() {
    in_.fill(3);
    ASSERT_TRUE(mirror_.add("in", in_.data() + 500, Use::input));
    ASSERT_TRUE(mirror_.add("out", out_.data(), Use::input));
    ASSERT_TRUE(mirror_.add("out", out_.data() + 77, Use::output));  // its end; the stronger use counts
    ASSERT_TRUE(mirror_.add("scratch", scratch_.data(), Use::scratch));
    ASSERT_TRUE(mirror_.place());
    mirror_.upload();
  }
  std::string only_fault() {
    const std::vector<std::string> faults = mirror_.download();
    return faults.size() == 1 ? faults[0] : std::to_string(faults.size()) + " faults";
  }

  std::unique_ptr<TestDevice> device_;
  Mirror mirror_;
  Guarded in_{1000, Place::begin}, out_{77}, scratch_{5};
};
INSTANTIATE_TEST_SUITE_P(Arenas, MirrorOf, testing::Values(false, true),
                         [](const auto& one) { return one.param ? "separate" : "together"; });

TEST_P(MirrorOf, CopiesThereAndOutputsBack) {
  prepare();
  for (int i = 0; i < 1000; ++i) ASSERT_EQ(there(in_.data())[i], std::byte{3});
  for (int i = 0; i < 77; ++i) ASSERT_EQ(there(out_.data())[i], std::byte{kPoison});
  for (const Guarded* g : {&in_, &out_, &scratch_}) {
    EXPECT_EQ(reinterpret_cast<uintptr_t>(there(g->data())) % 256, reinterpret_cast<uintptr_t>(g->data()) % 256);
  }
  std::memset(there(out_.data()), 9, 77);
  std::memset(there(scratch_.data()), 1, 5);
  EXPECT_TRUE(mirror_.download().empty());
  EXPECT_TRUE(out_.all(9));
  EXPECT_TRUE(in_.all(3));
  EXPECT_TRUE(scratch_.all(kPoison)) << "scratch does not come back";
}

TEST_P(MirrorOf, ContentsChangeBetweenUploadsAndAddressesStay) {
  prepare();
  const std::byte* before = there(in_.data());
  in_.fill(4);
  mirror_.upload();
  EXPECT_EQ(there(in_.data()), before);
  EXPECT_EQ(before[999], std::byte{4});
}

TEST_P(MirrorOf, NoticesAWrittenInput) {
  prepare();
  there(in_.data())[998] = std::byte{0};
  EXPECT_EQ(only_fault(), "an input was written to: in, byte 998 of 1000");
  EXPECT_TRUE(in_.all(3));
}

TEST(Mirror, NoticesWritesOutOfBounds) {
  const std::unique_ptr<TestDevice> device = host_device();
  const Guarded a(100), b(0), c(33);
  for (const auto& [at, zone] : std::vector<std::pair<int, std::string>>{
           {-1, "before a"}, {100, "behind a, before b"}, {100 + 512, "behind b, before c"}}) {
    Mirror mirror(*device, false);
    mirror.add("a", a.data(), Use::output);
    mirror.add("b", b.data(), Use::output);
    mirror.add("c", c.data(), Use::output);
    ASSERT_TRUE(mirror.place());
    mirror.upload();
    static_cast<std::byte*>(mirror.address(a.data()))[at] = std::byte{0};
    const std::vector<std::string> faults = mirror.download();
    ASSERT_EQ(faults.size(), 1u) << zone;
    EXPECT_EQ(faults[0].find("written out of bounds " + zone + ","), 0u) << faults[0];
  }
}

TEST(Mirror, KnowsOnlyTheTestsAllocations) {
  const std::unique_ptr<TestDevice> device = host_device();
  Mirror mirror(*device, false);
  const int on_the_stack = 0;
  const std::vector<std::byte> on_the_heap(8);
  EXPECT_FALSE(mirror.add("stack", &on_the_stack, Use::input));
  EXPECT_FALSE(mirror.add("heap", on_the_heap.data(), Use::input));
  EXPECT_FALSE(mirror.add("null", nullptr, Use::input));
  Guarded moved(16);
  const std::byte* data = moved.data();
  const Guarded owner = std::move(moved);
  EXPECT_EQ(region_of(data + 3).data, owner.data());
  {
    const Guarded gone(16);
    data = gone.data();
  }
  EXPECT_EQ(region_of(data).data, nullptr);
}

TEST(Mirror, SparseMemoryTravelsByTouchedPages) {
  const std::unique_ptr<TestDevice> device = host_device();
  constexpr size_t kBytes = size_t{6} << 30;
  const Sparse in(kBytes), out(kBytes);
  in.data()[kBytes - 1] = std::byte{5};
  out.data()[4096] = std::byte{6};
  Mirror mirror(*device, false);
  ASSERT_TRUE(mirror.add("in", in.data(), Use::input) && mirror.add("out", out.data(), Use::output));
  ASSERT_TRUE(mirror.place());
  mirror.upload();
  auto* there = static_cast<std::byte*>(mirror.address(out.data()));
  EXPECT_EQ(*static_cast<std::byte*>(mirror.address(in.data() + kBytes - 1)), std::byte{5});
  EXPECT_EQ(there[4096], std::byte{6});
  there[4097] = std::byte{7};            // beside what is there
  there[kBytes / 2 + 1] = std::byte{8};  // in a page that the host never touched
  EXPECT_TRUE(mirror.download().empty());
  EXPECT_EQ(out.data()[4096], std::byte{6});
  EXPECT_EQ(out.data()[4097], std::byte{7});
  EXPECT_EQ(out.data()[kBytes / 2 + 1], std::byte{8});
  EXPECT_LE(resident(out.data(), kBytes).size(), 4u) << "the copy touched more than it had to";
  *static_cast<std::byte*>(mirror.address(in.data() + kBytes - 2)) = std::byte{1};
  EXPECT_EQ(mirror.download().size(), 1u);
}

// One plan, run again with other contents at the same addresses: what a replayed graph does.
TEST(DeviceCall, ServesOtherLengthsAtTheSameAddresses) {
  const std::unique_ptr<TestDevice> device = host_device();
  Rng rng = test_rng();
  AttentionCase c = simple_case({1, 1}, {700, 90}, 4, 2, 64, 64);
  c.kv[0].k.codec = c.kv[0].v.codec = FOVEA_CODEC_F16;
  c.poison = false;
  AttentionProblem problem(c, rng);
  const Context context = cpu_context(1);
  const Plan<AttentionParams> plan = context.plan(problem.params);
  DeviceCall call(*device, FOVEA_OP_ATTENTION, &problem.params, {plan.scratch_bytes(), plan.sync_bytes()});
  ASSERT_EQ(call.mistake(), "");
  ASSERT_TRUE(call.enough_memory());
  const auto& params = call.params_as<AttentionParams>();
  EXPECT_NE(params.q.data, problem.params.q.data);
  for (int64_t len : {1, 512, 700}) {
    problem.caches[0]->kv_lens.set(0, static_cast<double>(len));
    problem.poison_outputs();
    call.upload();
    const Result result = plan.try_run(params, call.exec());
    ASSERT_TRUE(result) << result.message;
    EXPECT_TRUE(call.download().empty());
    const oracle::Attention64 want = oracle::attention64(problem.params);
    EXPECT_TRUE(within(problem.out, want.out, want.out_bound)) << len;
  }
}

// A kernel that writes where it must not, and one that leaves its sync dirty.
TEST(DeviceCall, NoticesWhatAKernelBreaks) {
  const std::unique_ptr<TestDevice> device = host_device();
  Rng rng = test_rng();
  AttentionProblem problem(simple_case({1}, {9}, 2, 1, 32, 32), rng);
  uint32_t status = 0;
  Exec exec;
  exec.status = &status;
  const auto after = [&](const std::function<void(const AttentionParams&, const Exec&)>& kernel) {
    DeviceCall call(*device, FOVEA_OP_ATTENTION, &problem.params, {100, 64}, exec);
    EXPECT_TRUE(call.enough_memory());
    call.upload();
    kernel(call.params_as<AttentionParams>(), call.exec());
    const std::vector<std::string> faults = call.download();
    return faults.empty() ? "" : faults[0];
  };
  const auto set = [](void* at, int64_t i) { static_cast<std::byte*>(at)[i] = std::byte{0x11}; };
  EXPECT_EQ(after([](auto&, auto&) {}), "");
  EXPECT_NE(after([&](auto& p, auto&) { set(p.q.data, 0); }).find("an input was written to: q,"), std::string::npos);
  EXPECT_NE(after([&](auto& p, auto&) { set(p.kv->v.data.base, 5); }).find("written to: kv[0].v.data, byte 5 of"),
            std::string::npos);
  EXPECT_NE(after([&](auto& p, auto&) { set(p.kv->kv_lens.data, -1); }).find("out of bounds"), std::string::npos);
  EXPECT_NE(after([&](auto&, auto& e) { set(e.scratch, 100); }).find("out of bounds behind exec.scratch"),
            std::string::npos);
  EXPECT_EQ(after([&](auto&, auto& e) { set(e.sync, 8); }), "sync is not left zero");
  EXPECT_EQ(after([&](auto&, auto& e) { *e.status = FOVEA_INVALID_VALUE; }), "");
  EXPECT_EQ(status, static_cast<uint32_t>(FOVEA_INVALID_VALUE));
}

TEST(DeviceCall, NamesMemoryThatIsNoTests) {
  const std::unique_ptr<TestDevice> device = host_device();
  Rng rng = test_rng();
  AttentionProblem problem(simple_case({1}, {9}, 2, 1, 32, 32), rng);
  std::vector<float> elsewhere(64);
  problem.params.out.data = elsewhere.data();
  const DeviceCall call(*device, FOVEA_OP_ATTENTION, &problem.params, {});
  EXPECT_EQ(call.mistake(), "out points to memory that is no allocation of the tests");
}

}  // namespace
}  // namespace fovea::test
