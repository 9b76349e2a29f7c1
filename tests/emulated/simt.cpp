// SPDX-License-Identifier: Apache-2.0
#include "emulated/simt.h"

#include <ucontext.h>

#include <cstdint>
#include <cstring>
#include <memory>
#include <stdexcept>
#include <vector>

namespace simt {
namespace {

constexpr size_t kStack = 256 << 10;  // bytes

struct Thread {
  ucontext_t context;
  std::unique_ptr<char[]> stack{new char[kStack]};
  Dim index;
  bool done = false;
  uint64_t meetings = 0;        // of its warp that it has come to
  uint64_t block_meetings = 0;  // barriers
  char value[2][8];             // what it left at the last two meetings
};

struct Block {
  std::vector<std::unique_ptr<Thread>> threads;
  ucontext_t scheduler;
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
  swapcontext(&self().context, &block.scheduler);
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
    getcontext(&t.context);
    t.context.uc_stack = {.ss_sp = t.stack.get(), .ss_flags = 0, .ss_size = kStack};
    t.context.uc_link = nullptr;
    makecontext(&t.context, start, 0);
  }
  for (bool left = true; left;) {
    left = block.progress = false;
    for (block.running = 0; block.running < block.threads.size(); ++block.running) {
      if (self().done) continue;
      left = true;
      thread_idx = self().index;
      swapcontext(&block.scheduler, &self().context);
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

void run(Dim grid, Dim size, const std::function<void()>& kernel) {
  while (block.threads.size() < size.x) block.threads.push_back(std::make_unique<Thread>());
  block.threads.resize(size.x);
  for (unsigned i = 0; i < size.x; ++i) block.threads[i]->index = {i, 0, 0};
  block.kernel = &kernel;
  grid_dim = grid;
  block_dim = size;
  for (unsigned i = 0; i < grid.x; ++i) {
    block_idx = {i, 0, 0};
    run_block();
  }
}

}  // namespace simt
