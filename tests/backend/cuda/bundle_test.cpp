// SPDX-License-Identifier: Apache-2.0
#include "backend/cuda/bundle.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "backend/cuda/temporary.h"

namespace fovea::cuda {
namespace {

constexpr size_t kHeaderBytes = 96, kRowBytes = 48;

class BundleFile : public testing::Test {
 protected:
  BundleFile() { publish(bytes()); }

  std::string bytes() const { return bundle_bytes(expected_, {13, 0}, kernels_); }
  void publish(const std::string& data) const { write(path_, data); }
  Status open() { return Bundle::open(path_, expected_, bundle_); }
  std::string refusal() {
    const Status status = open();
    EXPECT_EQ(status.code(), FOVEA_IO);
    EXPECT_EQ(bundle_, nullptr);
    return status.message();
  }

  TemporaryFolder folder_;
  const std::string path_ = folder_.path("fovea-sm_90a.bundle");
  Bundle::Expected expected_{{1, 2}, {90, 'a'}, 13};
  std::vector<BundleKernel> kernels_{
      {{7, 7}, std::string(1000, 'a'), "third<n=1>"}, {{3, 9}, "b", "second"}, {{3, 8}, std::string(33, 'c'), ""}};
  // Of all names, each with its newline.
  size_t names_bytes() const {
    size_t bytes = 0;
    for (const BundleKernel& kernel : kernels_) bytes += kernel.name.size() + 1;
    return bytes;
  }
  std::unique_ptr<Bundle> bundle_;
};

TEST_F(BundleFile, RoundTrip) {
  ASSERT_TRUE(open().ok());
  EXPECT_EQ(bundle_->count(), 3u);
  EXPECT_EQ(bundle_->version(), (NvrtcVersion{13, 0}));
  EXPECT_EQ(bundle_->names(), (std::vector<std::string>{"", "second", "third<n=1>"}));
  EXPECT_EQ(bundle_->rows().back().key, (Hash128{7, 7}));
  for (const BundleKernel& kernel : kernels_) {
    std::string cubin;
    EXPECT_TRUE(bundle_->contains(kernel.key));
    ASSERT_TRUE(bundle_->read(kernel.key, cubin).ok());
    EXPECT_EQ(cubin, kernel.cubin);
  }
  std::string cubin = "untouched";
  EXPECT_FALSE(bundle_->contains({7, 8}));
  EXPECT_EQ(bundle_->read({7, 8}, cubin).code(), FOVEA_IO);
  EXPECT_EQ(cubin, "untouched");
}

TEST_F(BundleFile, TheOrderOfKernelsDoesNotMatter) {
  const std::string before = bytes();
  std::swap(kernels_[0], kernels_[2]);
  EXPECT_EQ(bytes(), before);
}

TEST_F(BundleFile, AnEmptyOneIsFine) {
  kernels_.clear();
  publish(bytes());
  ASSERT_TRUE(open().ok());
  EXPECT_FALSE(bundle_->contains({7, 7}));
}

TEST_F(BundleFile, WhatWasMadeForSomethingElseIsRefusedByName) {
  expected_.arch = {80, '\0'};
  EXPECT_EQ(refusal(), path_ + ": is for sm_90a: sm_80 is needed");
  expected_.arch = {90, 'a'};
  expected_.source_digest.high = 3;
  EXPECT_NE(refusal().find("was compiled from other kernel sources"), std::string::npos);
  expected_.source_digest.high = 2;
  expected_.max_major = 12;
  EXPECT_EQ(refusal(), path_ + ": was compiled by NVRTC 13.0: the driver loads code of CUDA 12 at most");
}

TEST_F(BundleFile, CanBeLookedAtWhateverItIsFor) {
  ASSERT_TRUE(Bundle::inspect(path_, bundle_).ok());
  EXPECT_EQ(bundle_->arch(), "90a");
  EXPECT_EQ(bundle_->source_digest(), (Hash128{1, 2}));
  EXPECT_EQ(bundle_->count(), 3u);
  publish(std::string(4096, 'x'));
  EXPECT_FALSE(Bundle::inspect(path_, bundle_).ok());
}

TEST_F(BundleFile, ForeignFilesAreRefusedByName) {
  publish("");
  EXPECT_EQ(refusal(), path_ + ": is not a kernel bundle: it is shorter than a header");
  publish(std::string(4096, 'x'));
  EXPECT_EQ(refusal(), path_ + ": is not a kernel bundle");
  std::string other_format = bytes();
  other_format[8] = 1;
  publish(other_format);
  EXPECT_EQ(refusal(), path_ + ": has bundle format 1: this library reads 2");
  std::filesystem::remove(path_);
  EXPECT_NE(refusal().find("cannot open it"), std::string::npos);
  std::filesystem::create_directory(path_);
  EXPECT_EQ(refusal(), path_ + ": is not a file");
}

TEST_F(BundleFile, AFileCutAnywhereIsRefused) {
  const std::string whole = bytes();
  std::vector<size_t> cuts = {0, 1, 8, kHeaderBytes - 1, kHeaderBytes, kHeaderBytes + 1};
  for (size_t row = 0; row < kernels_.size(); ++row) {
    for (const size_t at : {0u, 16u, 24u, 32u, 47u}) cuts.push_back(kHeaderBytes + row * kRowBytes + at);
  }
  const size_t first_cubin = (kHeaderBytes + kernels_.size() * kRowBytes + names_bytes() + 15) / 16 * 16;
  for (size_t at = first_cubin - 1; at < whole.size(); at += 16) cuts.push_back(at);
  cuts.push_back(whole.size() - 1);
  for (const size_t cut : cuts) {
    publish(whole.substr(0, cut));
    EXPECT_FALSE(refusal().empty()) << cut;
  }
  publish(whole + "x");
  EXPECT_FALSE(refusal().empty());
}

TEST_F(BundleFile, EveryByteOfHeaderIndexAndNamesIsChecked) {
  const std::string whole = bytes();
  for (size_t at = 0; at < kHeaderBytes + kernels_.size() * kRowBytes + names_bytes(); ++at) {
    std::string damaged = whole;
    damaged[at] = static_cast<char>(damaged[at] ^ 0x40);
    publish(damaged);
    EXPECT_FALSE(open().ok()) << at;
  }
}

TEST_F(BundleFile, ADamagedKernelIsRefusedAndTheOthersAreRead) {
  std::string damaged = bytes();
  damaged.back() = static_cast<char>(damaged.back() ^ 1);  // the last key's
  publish(damaged);
  ASSERT_TRUE(open().ok());
  std::string cubin;
  const Status status = bundle_->read({7, 7}, cubin);
  EXPECT_EQ(status.code(), FOVEA_IO);
  EXPECT_NE(status.message().find("is damaged: the checksum of kernel"), std::string::npos) << status.message();
  EXPECT_TRUE(bundle_->read({3, 9}, cubin).ok());
}

TEST_F(BundleFile, AFileCutWhileInUseIsAnError) {
  ASSERT_TRUE(open().ok());
  std::filesystem::resize_file(path_, kHeaderBytes);
  std::string cubin;
  EXPECT_EQ(bundle_->read({7, 7}, cubin).message(), path_ + ": ends too early");
}

}  // namespace
}  // namespace fovea::cuda
