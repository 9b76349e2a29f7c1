// SPDX-License-Identifier: Apache-2.0
#include "backend/cuda/disk_cache.h"

#include <cstring>
#include <filesystem>
#include <thread>

#include "backend/cuda/files.h"
#include "base/env.h"

namespace fovea::cuda {

namespace {

namespace fs = std::filesystem;

struct EntryHeader {
  char magic[8] = {'F', 'O', 'V', 'E', 'A', 'K', 'R', 'N'};
  uint32_t format = 1;
  uint32_t nvrtc_major = 0;
  uint32_t nvrtc_minor = 0;
  uint32_t zero = 0;
  Hash128 key;
  uint64_t bytes = 0;  // of the cubin behind it
  Hash128 checksum;    // of the header with this field zero, then of the cubin
};
static_assert(sizeof(EntryHeader) == 64);

Hash128 checksum_of(EntryHeader header, const char* cubin) {
  header.checksum = {};
  Hasher hasher;
  hasher.bytes(&header, sizeof header);
  hasher.bytes(cubin, header.bytes);
  return hasher.finish();
}

// Partial files of killed writers, an hour after.
void remove_stale_partials(const std::string& folder) {
  std::error_code error;
  const auto limit = fs::file_time_type::clock::now() - std::chrono::hours(1);
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
    std::error_code ignored;
    if (!it->path().string().ends_with(kPartialSuffix)) continue;
    const auto time = it->last_write_time(ignored);
    if (!ignored && time < limit) fs::remove(it->path(), ignored);
  }
}

}  // namespace

std::string DiskCache::default_folder() {
  const std::string xdg = env(Env::xdg_cache_home);
  if (xdg.starts_with('/')) return xdg + "/fovea";  // the XDG rules: relative paths count as unset
  const std::string home = env(Env::home);
  return home.starts_with('/') ? home + "/.cache/fovea" : "";
}

DiskCache::DiskCache(std::string folder, std::string reason) : folder_(std::move(folder)), reason_(std::move(reason)) {}

std::string DiskCache::path(const Hash128& key, const NvrtcVersion& version) const {
  return folder_ + "/" + hex(key) + "-nvrtc" + name(version) + ".kernel";
}

bool DiskCache::read(const Hash128& key, const NvrtcVersion& version, std::string& cubin) const {
  std::string file;
  if (!read_file(path(key, version), file).ok() || file.size() <= sizeof(EntryHeader)) return false;
  EntryHeader header;
  const EntryHeader expected;
  std::memcpy(&header, file.data(), sizeof header);
  const char* code = file.data() + sizeof header;
  if (std::memcmp(header.magic, expected.magic, sizeof header.magic) != 0 || header.format != expected.format ||
      header.key != key || header.nvrtc_major != static_cast<uint32_t>(version.major) ||
      header.nvrtc_minor != static_cast<uint32_t>(version.minor) || header.bytes != file.size() - sizeof header ||
      header.checksum != checksum_of(header, code)) {
    return false;
  }
  cubin.assign(code, header.bytes);
  return true;
}

bool DiskCache::find(const Hash128& key, const NvrtcVersion& version, int max_major, Entry& out) const {
  if (folder_.empty()) return false;
  if (version != NvrtcVersion{}) {
    out.version = version;
    return read(key, version, out.cubin);
  }
  bool found = false;
  const std::string prefix = hex(key) + "-nvrtc";
  std::error_code error;
  for (fs::directory_iterator it(folder_, error), end; !error && it != end; it.increment(error)) {
    const std::string file = it->path().filename().string();
    NvrtcVersion seen;
    if (!file.starts_with(prefix) ||
        std::sscanf(file.c_str() + prefix.size(), "%d.%d.kernel", &seen.major, &seen.minor) != 2) {
      continue;
    }
    Entry entry{seen, {}};
    if (seen.major > max_major || (found && seen < out.version) || !read(key, seen, entry.cubin)) continue;
    out = std::move(entry);
    found = true;
  }
  return found;
}

bool DiskCache::make_folder() {
  const std::lock_guard lock(mutex_);
  if (folder_made_) return true;
  std::error_code error;
  const bool existed = fs::is_directory(folder_, error);
  fs::create_directories(folder_, error);
  if (error) {
    problem_ = "cannot create it (" + error.message() + ")";
    return false;
  }
  if (!existed) fs::permissions(folder_, fs::perms::owner_all, error);  // code that will run: nobody else writes here
  remove_stale_partials(folder_);
  folder_made_ = true;
  return true;
}

void DiskCache::publish(const Hash128& key, const NvrtcVersion& version, const std::string& cubin) {
  EntryHeader header;
  header.nvrtc_major = static_cast<uint32_t>(version.major);
  header.nvrtc_minor = static_cast<uint32_t>(version.minor);
  header.key = key;
  header.bytes = cubin.size();
  header.checksum = checksum_of(header, cubin.data());
  std::string file(reinterpret_cast<const char*>(&header), sizeof header);
  file += cubin;
  const Status status = publish_file(path(key, version), file);
  if (status.ok()) return;
  const std::lock_guard lock(mutex_);
  problem_ = status.message();
}

Status DiskCache::find_or_make(const Hash128& key, const NvrtcVersion& version,
                               const std::function<Status(std::string&)>& compile, std::string& cubin, bool& compiled) {
  compiled = false;
  FileLock lock;
  const bool usable = !folder_.empty() && make_folder();
  const auto give_up = std::chrono::steady_clock::now() + patience_;
  while (usable) {
    const FileLock::State state = FileLock::try_take(path(key, version) + ".lock", lock);
    // Also with the lock: its last holder may have published between our look and its release.
    if (read(key, version, cubin)) {
      lock.remove();
      return {};
    }
    if (state != FileLock::State::busy || std::chrono::steady_clock::now() >= give_up) break;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  Status status = compile(cubin);
  compiled = status.ok();
  if (compiled && usable) publish(key, version, cubin);
  lock.remove();
  return status;
}

std::string DiskCache::describe() const {
  if (folder_.empty()) return "none: " + reason_;
  const std::lock_guard lock(mutex_);
  return problem_.empty() ? folder_ : folder_ + ": not written: " + problem_;
}

}  // namespace fovea::cuda
