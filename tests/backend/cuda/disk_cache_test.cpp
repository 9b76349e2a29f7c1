// SPDX-License-Identifier: Apache-2.0
#include "backend/cuda/disk_cache.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mount.h>
#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <filesystem>

#include "backend/cuda/files.h"
#include "backend/cuda/temporary.h"

namespace fovea::cuda {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

constexpr Hash128 kKey{1, 2};
constexpr NvrtcVersion kVersion{13, 0};
const std::string kCubin(5000, 'k');

// What a compile would do.
Status make_cubin(std::string& cubin) {
  cubin = kCubin;
  return {};
}

class Cache : public testing::Test {
 protected:
  std::string only_file() const {
    std::string found;
    for (const auto& entry : fs::directory_iterator(folder_.path())) {
      EXPECT_TRUE(found.empty()) << "more than one file: " << entry.path();
      found = entry.path().string();
    }
    return found;
  }
  bool find(DiskCache& cache, std::string& cubin) const {
    DiskCache::Entry entry;
    const bool found = cache.find(kKey, kVersion, 13, entry);
    if (found) cubin = entry.cubin;
    return found;
  }
  // True where it compiled.
  bool make(DiskCache& cache) const {
    std::string cubin;
    bool compiled = false;
    EXPECT_TRUE(cache.find_or_make(kKey, kVersion, make_cubin, cubin, compiled).ok());
    EXPECT_EQ(cubin, kCubin);
    return compiled;
  }

  TemporaryFolder folder_;
  DiskCache cache_{folder_.path()};
};

TEST_F(Cache, KeepsWhatWasMade) {
  std::string cubin;
  EXPECT_FALSE(find(cache_, cubin));
  EXPECT_TRUE(make(cache_));
  EXPECT_FALSE(make(cache_));
  DiskCache other(folder_.path());
  ASSERT_TRUE(find(other, cubin));
  EXPECT_EQ(cubin, kCubin);
  EXPECT_EQ(cache_.describe(), folder_.path());
  EXPECT_TRUE(only_file().ends_with("-nvrtc13.0.kernel"));  // neither lock nor partial file stays
}

TEST_F(Cache, MakesItsFolderForItsUserAlone) {
  DiskCache cache(folder_.path("a/b"));
  EXPECT_TRUE(make(cache));
  EXPECT_FALSE(make(cache));
  EXPECT_EQ(fs::status(folder_.path("a/b")).permissions(), fs::perms::owner_all);
}

TEST_F(Cache, AnotherVersionOfTheCompilerIsAnotherEntry) {
  EXPECT_TRUE(make(cache_));
  DiskCache::Entry entry;
  EXPECT_FALSE(cache_.find(kKey, {13, 1}, 13, entry));
  bool compiled = false;
  std::string cubin;
  const auto newer = [](std::string& out) -> Status {
    out = "newer";
    return {};
  };
  ASSERT_TRUE(cache_.find_or_make(kKey, {13, 1}, newer, cubin, compiled).ok());
  EXPECT_TRUE(compiled);
  ASSERT_TRUE(cache_.find(kKey, kVersion, 13, entry));
  EXPECT_EQ(entry.cubin, kCubin);
  // Without a compiler the newest entry that the driver loads will do.
  ASSERT_TRUE(cache_.find(kKey, {}, 13, entry));
  EXPECT_EQ(entry.cubin, "newer");
  EXPECT_EQ(entry.version, (NvrtcVersion{13, 1}));
  EXPECT_FALSE(cache_.find(kKey, {}, 12, entry));
}

TEST_F(Cache, AFailedCompileLeavesNothing) {
  std::string cubin;
  bool compiled = true;
  const auto fail = [](std::string&) -> Status { return {FOVEA_INTERNAL, "broken"}; };
  EXPECT_EQ(cache_.find_or_make(kKey, kVersion, fail, cubin, compiled).message(), "broken");
  EXPECT_FALSE(compiled);
  EXPECT_EQ(only_file(), "");
}

TEST_F(Cache, FilesThatAreNotWholeAreReplaced) {
  EXPECT_TRUE(make(cache_));
  const std::string path = only_file(), whole = read(path);
  std::vector<std::string> damaged = {"", "x", std::string(10000, 'z')};
  for (const size_t cut : {size_t{1}, size_t{32}, size_t{63}, size_t{64}, size_t{65}, whole.size() - 1}) {
    damaged.push_back(whole.substr(0, cut));
  }
  damaged.push_back(whole + "x");
  for (size_t at = 0; at < whole.size(); at += at < 64 ? 1 : 997) {
    damaged.push_back(whole);
    damaged.back()[at] = static_cast<char>(whole[at] ^ 0x10);
  }
  std::string cubin;
  for (const std::string& bytes : damaged) {
    write(path, bytes);
    EXPECT_FALSE(find(cache_, cubin)) << bytes.size();
    EXPECT_TRUE(make(cache_));
    EXPECT_TRUE(find(cache_, cubin));
    EXPECT_EQ(read(path), whole);
  }
}

TEST_F(Cache, TheEntryOfAnotherKeyIsForeign) {
  EXPECT_TRUE(make(cache_));
  std::string cubin;
  bool compiled = false;
  const auto other = [](std::string& out) -> Status {
    out = "other";
    return {};
  };
  const std::string path = only_file();
  ASSERT_TRUE(cache_.find_or_make({5, 6}, kVersion, other, cubin, compiled).ok());
  for (const auto& entry : fs::directory_iterator(folder_.path())) {
    if (entry.path() != path) fs::copy_file(entry.path(), path, fs::copy_options::overwrite_existing);
  }
  EXPECT_FALSE(find(cache_, cubin));
  EXPECT_TRUE(make(cache_));
}

TEST_F(Cache, WaitsForAnotherProcessThatCompilesTheSame) {
  Child first([&] {
    DiskCache cache(folder_.path());
    std::string cubin;
    bool compiled = false;
    const auto slowly = [&](std::string& out) -> Status {
      write(folder_.path("started"), "");
      usleep(300000);
      return make_cubin(out);
    };
    return cache.find_or_make(kKey, kVersion, slowly, cubin, compiled).ok() && compiled ? 0 : 1;
  });
  wait_for_file(folder_.path("started"));
  EXPECT_FALSE(make(cache_)) << "compiled what the other process was compiling";
  EXPECT_EQ(first.wait(), 0);
}

// Holds the lock and a half-written file until it is stopped.
int hold_lock(const std::string& folder) {
  DiskCache cache(folder);
  std::string cubin;
  bool compiled = false;
  const auto never = [&](std::string&) -> Status {
    write(folder + "/half" + kPartialSuffix, "half a kernel");
    write(folder + "/started", "");
    pause();
    return {};
  };
  static_cast<void>(cache.find_or_make(kKey, kVersion, never, cubin, compiled));
  return 1;
}

TEST_F(Cache, AKilledWriterBlocksNobody) {
  Child writer([&] { return hold_lock(folder_.path()); });
  wait_for_file(folder_.path("started"));
  writer.stop();
  const auto start = Clock::now();
  EXPECT_TRUE(make(cache_));
  EXPECT_LT(Clock::now() - start, std::chrono::seconds(10));  // half of the patience with a living one
  std::string cubin;
  EXPECT_TRUE(find(cache_, cubin));
}

TEST_F(Cache, AStuckWriterIsNotWaitedForBeyondPatience) {
  Child writer([&] { return hold_lock(folder_.path()); });
  wait_for_file(folder_.path("started"));
  cache_.set_patience(std::chrono::milliseconds(200));
  const auto start = Clock::now();
  EXPECT_TRUE(make(cache_));
  EXPECT_GE(Clock::now() - start, std::chrono::milliseconds(200));
  EXPECT_LT(Clock::now() - start, std::chrono::seconds(10));
  std::string cubin;
  EXPECT_TRUE(find(cache_, cubin));  // published although the lock was another's
}

TEST_F(Cache, PartialFilesOfDeadWritersAreRemovedAfterAnHour) {
  const std::string old = folder_.path(std::string("old") + kPartialSuffix);
  const std::string fresh = folder_.path(std::string("fresh") + kPartialSuffix);
  write(old, "x");
  write(fresh, "x");
  fs::last_write_time(old, fs::file_time_type::clock::now() - std::chrono::hours(2));
  EXPECT_TRUE(make(cache_));
  EXPECT_FALSE(fs::exists(old));
  EXPECT_TRUE(fs::exists(fresh));
}

TEST_F(Cache, WithoutAFolderEverythingIsCompiled) {
  DiskCache none("", "turned off");
  EXPECT_TRUE(make(none));
  EXPECT_TRUE(make(none));
  EXPECT_EQ(none.describe(), "none: turned off");
}

TEST_F(Cache, AFolderThatCannotBeMadeCostsOnlyTheCache) {
  write(folder_.path("file"), "");
  DiskCache cache(folder_.path("file/cache"));
  EXPECT_TRUE(make(cache));
  EXPECT_TRUE(make(cache));
  EXPECT_NE(cache.describe().find("file/cache: not written: cannot create it"), std::string::npos) << cache.describe();
}

// As a user to whom the folder is read-only; root could write all the same.
int use_read_only(const std::string& folder) {
  if (geteuid() == 0 && (setgid(65534) != 0 || setuid(65534) != 0)) return 77;
  DiskCache cache(folder);
  std::string cubin;
  bool compiled = false;
  DiskCache::Entry entry;
  if (!cache.find(kKey, kVersion, 13, entry) || entry.cubin != kCubin) return 1;  // what is there is read
  if (!cache.find_or_make({8, 8}, kVersion, make_cubin, cubin, compiled).ok() || !compiled || cubin != kCubin) return 2;
  return cache.describe().find("not written") != std::string::npos ? 0 : 3;
}

TEST_F(Cache, AReadOnlyFolderIsReadAndCostsOnlyNewEntries) {
  EXPECT_TRUE(make(cache_));
  fs::permissions(folder_.path(),
                  fs::perms::owner_read | fs::perms::owner_exec | fs::perms::others_read | fs::perms::others_exec);
  Child reader([&] { return use_read_only(folder_.path()); });
  const int code = reader.wait();
  fs::permissions(folder_.path(), fs::perms::owner_all);
  if (code == 77) GTEST_SKIP() << "cannot become another user";
  EXPECT_EQ(code, 0);
}

int use_full(const std::string& folder) {
  DiskCache cache(folder);
  for (int i = 0; i < 2; ++i) {
    std::string cubin;
    bool compiled = false;
    if (!cache.find_or_make(kKey, kVersion, make_cubin, cubin, compiled).ok() || !compiled) return 1;
    if (cubin != kCubin) return 2;
  }
  for (const auto& entry : fs::directory_iterator(folder)) {
    if (entry.path().extension() != ".lock") return 3;  // half a file stayed
  }
  return cache.describe().find("not written") != std::string::npos ? 0 : 4;
}

TEST_F(Cache, AFileThatMayNotGrowCostsOnlyTheEntry) {
  Child writer([&] {
    signal(SIGXFSZ, SIG_IGN);
    const rlimit limit{1000, 1000};  // bytes of a file
    return setrlimit(RLIMIT_FSIZE, &limit) == 0 ? use_full(folder_.path()) : 77;
  });
  EXPECT_EQ(writer.wait(), 0);
}

TEST_F(Cache, AFullDiskCostsOnlyTheEntry) {
  const std::string disk = folder_.path("disk");
  fs::create_directory(disk);
  if (mount("tmpfs", disk.c_str(), "tmpfs", 0, "size=4k") != 0) GTEST_SKIP() << "cannot mount a small disk";
  Child writer([&] { return use_full(disk); });
  EXPECT_EQ(writer.wait(), 0);
  EXPECT_EQ(umount2(disk.c_str(), MNT_DETACH), 0);
}

TEST(CacheFolder, FollowsTheEnvironment) {
  const auto with = [](const char* xdg, const char* home) {
    xdg ? setenv("XDG_CACHE_HOME", xdg, 1) : unsetenv("XDG_CACHE_HOME");
    home ? setenv("HOME", home, 1) : unsetenv("HOME");
    return DiskCache::default_folder();
  };
  const char *old_xdg = getenv("XDG_CACHE_HOME"), *old_home = getenv("HOME");
  const std::string xdg = old_xdg ? old_xdg : "", home = old_home ? old_home : "";
  EXPECT_EQ(with("/x", "/h"), "/x/fovea");
  EXPECT_EQ(with("relative", "/h"), "/h/.cache/fovea");
  EXPECT_EQ(with("", "/h"), "/h/.cache/fovea");
  EXPECT_EQ(with(nullptr, "/h"), "/h/.cache/fovea");
  EXPECT_EQ(with(nullptr, nullptr), "");
  with(old_xdg ? xdg.c_str() : nullptr, old_home ? home.c_str() : nullptr);
}

}  // namespace
}  // namespace fovea::cuda
