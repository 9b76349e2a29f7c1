// SPDX-License-Identifier: Apache-2.0
#include "backend/cuda/cubin.h"

#include <elf.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <string_view>
#include <vector>

namespace fovea::cuda {

namespace {

// Attributes of .nv.info sections: a byte of format, a byte of kind, 16 bits of value; format 4 says that the value is
// the number of bytes that follow. The numbers are those that cuobjdump -elf prints as EIATTR_*.
constexpr unsigned kSized = 4;
constexpr unsigned kMaxThreads = 0x05, kFrameSize = 0x11, kRegCount = 0x2f;
constexpr int kMostThreads = 1024;         // where an entry has no launch bounds
constexpr uint64_t kMostShared = 1 << 30;  // bytes; no card has as much, but a file may say so
constexpr int kReservedShared = 1024;      // bytes that from 9.0 on every block's section of shared memory begins with
constexpr int kFirstWithReserved = 90;

struct Section {
  std::string_view name;
  std::string_view data;  // empty for one without bytes in the file
  uint64_t bytes = 0;
};

// Every read is checked: a file that ends early or points outside itself gives no section.
bool read_sections(const std::string& file, std::vector<Section>& out) {
  Elf64_Ehdr header;
  if (file.size() < sizeof header) return false;
  std::memcpy(&header, file.data(), sizeof header);
  if (std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 || header.e_ident[EI_CLASS] != ELFCLASS64 ||
      header.e_shentsize != sizeof(Elf64_Shdr) || header.e_shoff > file.size() ||
      header.e_shnum > (file.size() - header.e_shoff) / sizeof(Elf64_Shdr) || header.e_shstrndx >= header.e_shnum) {
    return false;
  }
  std::vector<Elf64_Shdr> rows(header.e_shnum);
  std::memcpy(rows.data(), file.data() + header.e_shoff, rows.size() * sizeof(Elf64_Shdr));
  const auto data_of = [&](const Elf64_Shdr& row, std::string_view& data) {
    if (row.sh_type == SHT_NOBITS) return true;
    if (row.sh_offset > file.size() || row.sh_size > file.size() - row.sh_offset) return false;
    data = std::string_view(file).substr(row.sh_offset, row.sh_size);
    return true;
  };
  std::string_view names;
  if (!data_of(rows[header.e_shstrndx], names)) return false;
  for (const Elf64_Shdr& row : rows) {
    Section section;
    section.bytes = row.sh_size;
    if (row.sh_name >= names.size() || !data_of(row, section.data)) return false;
    const std::string_view rest = names.substr(row.sh_name);
    section.name = rest.substr(0, rest.find('\0'));
    out.push_back(section);
  }
  return true;
}

const Section* find(const std::vector<Section>& sections, const std::string& name) {
  for (const Section& section : sections) {
    if (section.name == name) return &section;
  }
  return nullptr;
}

// Calls body(kind, payload) for each attribute that has a payload.
template <class Body>
void each_attribute(std::string_view data, const Body& body) {
  while (data.size() >= 4) {
    const auto byte = [&](size_t i) { return static_cast<unsigned>(static_cast<unsigned char>(data[i])); };
    const unsigned format = byte(0), kind = byte(1), value = byte(2) | byte(3) << 8;
    data.remove_prefix(4);
    if (format != kSized) continue;
    if (value > data.size()) return;
    body(kind, data.substr(0, value));
    data.remove_prefix(value);
  }
}

int word(std::string_view payload, size_t i) {
  uint32_t value = 0;
  if (payload.size() >= 4 * (i + 1)) std::memcpy(&value, payload.data() + 4 * i, sizeof value);
  return static_cast<int>(value);
}

// Of a block of three dimensions, whatever numbers the file has.
int threads_of(std::string_view payload) {
  int64_t threads = 1;
  for (size_t i = 0; i < 3; ++i) threads = std::clamp<int64_t>(threads * word(payload, i), 0, kMostThreads);
  return static_cast<int>(threads);
}

// The number of the entry's symbol, by which .nv.info names it.
int symbol_of(const std::vector<Section>& sections, const std::string& entry) {
  const Section* symbols = find(sections, ".symtab");
  const Section* names = find(sections, ".strtab");
  if (symbols == nullptr || names == nullptr) return -1;
  for (size_t i = 0; (i + 1) * sizeof(Elf64_Sym) <= symbols->data.size(); ++i) {
    Elf64_Sym symbol;
    std::memcpy(&symbol, symbols->data.data() + i * sizeof symbol, sizeof symbol);
    if (ELF64_ST_TYPE(symbol.st_info) != STT_FUNC || symbol.st_name >= names->data.size()) continue;
    const std::string_view rest = names->data.substr(symbol.st_name);
    if (rest.substr(0, rest.find('\0')) == entry) return static_cast<int>(i);
  }
  return -1;
}

}  // namespace

Status read_resources(const std::string& cubin, const std::string& entry, const CudaArch& arch, Resources& out) {
  std::vector<Section> sections;
  if (!read_sections(cubin, sections)) return {FOVEA_INTERNAL, "the code of " + entry + " is no cubin"};
  const Section* info = find(sections, ".nv.info");
  const Section* of_entry = find(sections, ".nv.info." + entry);
  const int symbol = symbol_of(sections, entry);
  if (info == nullptr || of_entry == nullptr || symbol < 0) {
    return {FOVEA_INTERNAL, "a cubin has no entry " + entry};
  }
  Resources found{.max_threads = kMostThreads};
  each_attribute(info->data, [&](unsigned kind, std::string_view payload) {
    if (word(payload, 0) != symbol) return;
    if (kind == kRegCount) found.registers = word(payload, 1);
    if (kind == kFrameSize) found.local_bytes = word(payload, 1);
  });
  each_attribute(of_entry->data, [&](unsigned kind, std::string_view payload) {
    if (kind == kMaxThreads) found.max_threads = threads_of(payload);
  });
  if (const Section* shared = find(sections, ".nv.shared." + entry)) {
    const int reserved = arch.number >= kFirstWithReserved ? kReservedShared : 0;
    found.smem_bytes = static_cast<int>(std::min<uint64_t>(shared->bytes, kMostShared));
    found.smem_bytes = std::max(found.smem_bytes - reserved, 0);
  }
  out = found;
  return {};
}

// "Function properties for <entry>", and on the next line "<n> bytes stack frame, <n> bytes spill stores, <n> bytes
// spill loads" behind some words.
int spill_bytes(const std::string& log, const std::string& entry) {
  const size_t head = log.find("Function properties for " + entry + "\n");
  if (head == std::string::npos) return -1;
  const size_t line = log.find('\n', head);
  const size_t numbers = log.find_first_of("0123456789", line);
  int stack = 0, stores = 0, loads = 0;
  if (numbers == std::string::npos ||
      std::sscanf(log.c_str() + numbers, "%d bytes stack frame, %d bytes spill stores, %d bytes spill loads", &stack,
                  &stores, &loads) != 3) {
    return -1;
  }
  return stores + loads;
}

}  // namespace fovea::cuda
