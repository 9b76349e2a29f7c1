// SPDX-License-Identifier: Apache-2.0
// Copies of the tests' allocations on a device, at addresses of the same alignment, with poisoned zones around them.
#pragma once

#include <string>
#include <vector>

#include "support/device.h"
#include "support/guarded.h"

namespace fovea::test {

enum class Use {
  input,    // the device must leave it as it is
  output,   // copied back
  scratch,  // neither
};

class Mirror {
 public:
  explicit Mirror(TestDevice& device, bool separate = separate_allocations()) : device_(device), separate_(separate) {}
  ~Mirror();
  Mirror(const Mirror&) = delete;
  Mirror& operator=(const Mirror&) = delete;

  // Notes the allocation that holds `host`, as a whole; false where it is none of the tests'. Of two uses of one
  // allocation the later enumerator counts.
  bool add(const std::string& name, const void* host, Use use);
  // Takes the device memory for all that was added; false where there is not enough.
  bool place();
  void* address(const void* host) const;  // on the device, of any byte of what was added

  void upload();  // poisons the zones too
  // The same put off: there is poison until `copy` is made, by something that is launched on the device's stream.
  struct LateCopy {
    std::byte* to = nullptr;
    const std::byte* from = nullptr;
    size_t bytes = 0;
  };
  LateCopy put_off();
  // The same behind a slow producer: what is launched on the device's stream next finds the contents only if it waits
  // its turn; before, there is poison. Pieces with allocations of their own are there at once.
  void upload_late();
  // Copies outputs back. What went wrong, a line each: a changed zone or input, an error of the device.
  std::vector<std::string> download();

 private:
  struct Piece {
    std::string name;
    Region host;
    Use use;
    std::byte* device = nullptr;
    std::byte* own = nullptr;  // allocation of this piece alone
    size_t offset = 0;         // in the arena
  };
  bool place_alone(Piece& piece);
  void fill_image();  // and uploads what is not in the arena
  void read_sparse(const Piece& piece, std::vector<std::string>& faults);
  void read_dense(const Piece& piece, const std::byte* got, std::vector<std::string>& faults);
  void check_zones(std::vector<std::string>& faults);

  TestDevice& device_;
  bool separate_;
  std::vector<Piece> pieces_;
  std::vector<std::byte> image_;  // the arena's contents
  std::byte* arena_ = nullptr;
  std::byte* late_ = nullptr;  // the contents before they are due
  size_t arena_bytes_ = 0;
};

}  // namespace fovea::test
