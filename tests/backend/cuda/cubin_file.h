// SPDX-License-Identifier: Apache-2.0
// An ELF file that says of an entry what a cubin says, and holds no code: for tests that must not take the time to
// compile.
#pragma once

#include <elf.h>

#include <cstring>
#include <string>
#include <vector>

#include "backend/cuda/cubin.h"

namespace fovea::cuda {

// `smem_bytes` is the size of the section: from 9.0 on 1024 bytes of it are the driver's.
inline std::string cubin_file(const std::string& entry, const Resources& used = {.registers = 24, .max_threads = 128}) {
  struct Part {
    std::string name, data;
    uint32_t type;
    uint64_t bytes = 0;  // of a section that has none in the file
  };
  const auto words = [](std::initializer_list<uint32_t> values) {
    std::string bytes;
    for (const uint32_t value : values) bytes.append(reinterpret_cast<const char*>(&value), 4);
    return bytes;
  };
  const auto u32 = [](int value) { return static_cast<uint32_t>(value); };
  constexpr uint32_t kRegCount = 0x00082f04, kFrameSize = 0x00081104, kMaxThreads = 0x000c0504;
  Elf64_Sym symbols[2] = {};
  symbols[1].st_name = 1;
  symbols[1].st_info = ELF64_ST_INFO(STB_GLOBAL, STT_FUNC);
  std::vector<Part> parts = {
      {"", "", SHT_NULL},
      {".strtab", std::string(1, '\0') + entry + '\0', SHT_STRTAB},
      {".symtab", std::string(reinterpret_cast<const char*>(symbols), sizeof symbols), SHT_SYMTAB},
      {".nv.info", words({kRegCount, 1, u32(used.registers), kFrameSize, 1, u32(used.local_bytes)}), SHT_PROGBITS},
      {".nv.info." + entry, words({kMaxThreads, u32(used.max_threads), 1, 1}), SHT_PROGBITS},
      {".nv.shared." + entry, "", SHT_NOBITS, static_cast<uint64_t>(used.smem_bytes)},
      {".shstrtab", "", SHT_STRTAB}};
  std::string names;
  std::vector<Elf64_Shdr> rows(parts.size());
  for (size_t i = 0; i < parts.size(); ++i) {
    rows[i].sh_name = static_cast<uint32_t>(names.size());
    names += parts[i].name + '\0';
  }
  parts.back().data = names;
  Elf64_Ehdr header = {};
  std::memcpy(header.e_ident, ELFMAG, SELFMAG);
  header.e_ident[EI_CLASS] = ELFCLASS64;
  header.e_shentsize = sizeof(Elf64_Shdr);
  header.e_shnum = static_cast<uint16_t>(parts.size());
  header.e_shstrndx = static_cast<uint16_t>(parts.size() - 1);
  std::string body;
  for (size_t i = 0; i < parts.size(); ++i) {
    rows[i].sh_type = parts[i].type;
    rows[i].sh_offset = sizeof header + body.size();
    rows[i].sh_size = parts[i].data.size() + parts[i].bytes;
    body += parts[i].data;
  }
  header.e_shoff = sizeof header + body.size();
  return std::string(reinterpret_cast<const char*>(&header), sizeof header) + body +
         std::string(reinterpret_cast<const char*>(rows.data()), rows.size() * sizeof(Elf64_Shdr));
}

}  // namespace fovea::cuda
