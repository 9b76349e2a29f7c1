// SPDX-License-Identifier: Apache-2.0
#include "emulated/simt.h"

#include <ucontext.h>

#include <cstdint>
#include <cstring>
#include <deque>
#include <memory>
#include <stdexcept>
#include <vector>

namespace simt {
namespace {

constexpr size_t kStack = 256 << 10;  // bytes

// A thread of execution. ucontext asks the kernel for every switch, which costs most of the time of a matrix product;
// where registers and stack are enough, a few instructions do it.
#if defined(__x86_64__) && !defined(__SANITIZE_ADDRESS__)
extern "C" void fovea_simt_switch(void** from, void* to);
asm(R"(
.text
.globl fovea_simt_switch
.type fovea_simt_switch, @function
fovea_simt_switch:
  endbr64
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
.size fovea_simt_switch, .-fovea_simt_switch
)");
struct Execution {
  void* stack = nullptr;
  void begin(char* memory, void (*start)()) {
    auto** top = reinterpret_cast<void**>(memory + kStack - 64);  // as after a call: 8 past a multiple of 16
    *--top = nullptr;
    *--top = reinterpret_cast<void*>(start);
    for (int i = 0; i < 6; ++i) *--top = nullptr;
    stack = top;
  }
  void switch_to(Execution& other) { fovea_simt_switch(&stack, other.stack); }
};
#else
struct Execution {
  ucontext_t context;
  void begin(char* memory, void (*start)()) {
    getcontext(&context);
    context.uc_stack = {.ss_sp = memory, .ss_flags = 0, .ss_size = kStack};
    context.uc_link = nullptr;
    makecontext(&context, start, 0);
  }
  void switch_to(Execution& other) { swapcontext(&context, &other.context); }
};
#endif

struct Copy {
  void* to;
  const void* from;
  unsigned size, bytes;
};

struct Thread {
  Execution execution;
  std::unique_ptr<char[]> stack{new char[kStack]};
  Dim index;
  bool done = false;
  uint64_t meetings = 0;        // of its warp that it has come to
  uint64_t block_meetings = 0;  // barriers
  char value[2][8];             // what it left at the last two meetings
  void* brought = nullptr;      // to the work of its warp
  int vote[2] = {};             // of the last two barriers
  std::vector<Copy> copies;     // since the last group was closed
  std::deque<std::vector<Copy>> groups;
};

struct Block {
  std::vector<std::unique_ptr<Thread>> threads;
  Execution scheduler;
  const std::function<void()>* kernel = nullptr;
  size_t running = 0;
  bool progress = false;
};
Block block;

Thread& self() {
  return *block.threads[block.running];
}
Thread& lane_of_warp(int lane) {
  return *block.threads[block.running / 32 * 32 + static_cast<size_t>(lane)];
}

void yield() {
  self().execution.switch_to(block.scheduler);
}

void start() {
  (*block.kernel)();
  self().done = true;
  block.progress = true;
  yield();
}

void run_block() {
  for (const auto& thread : block.threads) {
    Thread& t = *thread;
    t.done = false;
    t.meetings = t.block_meetings = 0;
    t.copies.clear();
    t.groups.clear();
    t.execution.begin(t.stack.get(), start);
  }
  for (bool left = true; left;) {
    left = block.progress = false;
    for (block.running = 0; block.running < block.threads.size(); ++block.running) {
      if (self().done) continue;
      left = true;
      thread_idx = self().index;
      block.scheduler.switch_to(self().execution);
    }
    if (left && !block.progress) throw std::logic_error("threads of a block wait for each other in vain");
  }
}

}  // namespace

int this_lane() {
  return static_cast<int>(block.running % 32);
}

void meet(unsigned mask, const void* value, unsigned bytes) {
  Thread& me = self();
  const uint64_t meeting = ++me.meetings;
  if (bytes != 0) std::memcpy(me.value[meeting % 2], value, bytes);
  block.progress = true;
  for (int lane = 0; lane < 32; ++lane) {
    if (!(mask >> lane & 1)) continue;
    while (lane_of_warp(lane).meetings < meeting) yield();
  }
  block.progress = true;
}

void read(int lane, void* value, unsigned bytes) {
  std::memcpy(value, lane_of_warp(lane).value[self().meetings % 2], bytes);
}

void meet_block() {
  const uint64_t meeting = ++self().block_meetings;
  block.progress = true;
  for (const auto& other : block.threads) {
    while (!other->done && other->block_meetings < meeting) yield();
  }
  block.progress = true;
}

void work_together(void* mine, void (*work)(void* const (&lanes)[32])) {
  Thread& me = self();
  const uint64_t meeting = ++me.meetings;
  me.brought = mine;
  block.progress = true;
  void* lanes[32];
  bool last = true;
  for (int lane = 0; lane < 32; ++lane) {
    lanes[lane] = lane_of_warp(lane).brought;
    last = last && lane_of_warp(lane).meetings >= meeting;
  }
  if (last) work(lanes);
  for (int lane = 0; lane < 32; ++lane) {
    while (lane_of_warp(lane).meetings < meeting) yield();
  }
  block.progress = true;
}

int any_of_block(int value) {
  self().vote[(self().block_meetings + 1) % 2] = value;
  meet_block();
  int any = 0;
  for (const auto& other : block.threads) any |= other->done ? 0 : other->vote[self().block_meetings % 2];
  return any;
}

void copy_later(void* to, const void* from, unsigned size, unsigned bytes) {
  self().copies.push_back({to, from, size, bytes});
}
void close_group() {
  self().groups.push_back(std::move(self().copies));
  self().copies.clear();
}
void wait_for_groups(unsigned pending) {
  auto& groups = self().groups;
  for (; groups.size() > pending; groups.pop_front()) {
    for (const Copy& copy : groups.front()) {
      if (copy.bytes > 0) std::memcpy(copy.to, copy.from, copy.bytes);
      std::memset(static_cast<char*>(copy.to) + copy.bytes, 0, copy.size - copy.bytes);
    }
  }
}

void run(Dim grid, Dim size, const std::function<void()>& kernel) {
  while (block.threads.size() < size.x) block.threads.push_back(std::make_unique<Thread>());
  block.threads.resize(size.x);
  for (unsigned i = 0; i < size.x; ++i) block.threads[i]->index = {i, 0, 0};
  block.kernel = &kernel;
  grid_dim = grid;
  block_dim = size;
  for (unsigned z = 0; z < grid.z; ++z) {
    for (unsigned y = 0; y < grid.y; ++y) {
      for (unsigned x = 0; x < grid.x; ++x) {
        block_idx = {x, y, z};
        run_block();
      }
    }
  }
}

}  // namespace simt
