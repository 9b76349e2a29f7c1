# SPDX-License-Identifier: Apache-2.0
# cmake -DROOTS=... -DFILES=... -DTABLE=... -DOUTPUT=... -P embed.cmake: writes the files as the C++ table k<TABLE>s of
# (name, text) with k<TABLE>Count rows, sorted by name. A name is the path below one of ROOTS, which is how an #include spells it.
string(REPLACE "|" ";" ROOTS "${ROOTS}")
string(REPLACE "|" ";" FILES "${FILES}")

set(names "")
foreach(file IN LISTS FILES)
  foreach(root IN LISTS ROOTS)
    string(FIND "${file}" "${root}/" at)
    if(at EQUAL 0)
      file(RELATIVE_PATH name "${root}" "${file}")
      list(APPEND names "${name}")
      set(path_of_${name} "${file}")
      break()
    endif()
  endforeach()
endforeach()
list(SORT names)

set(partial "${OUTPUT}.partial")
file(WRITE "${partial}" "// Generated from the sources that kernels are compiled from.\n#include \"backend/cuda/sources.h\"\n
namespace fovea::cuda {\n\nextern const EmbeddedFile k${TABLE}s[];
extern const int k${TABLE}Count;
const EmbeddedFile k${TABLE}s[] = {\n")
foreach(name IN LISTS names)
  file(READ "${path_of_${name}}" text)
  file(APPEND "${partial}" "{\"${name}\", R\"fovea(")
  file(APPEND "${partial}" "${text}")
  file(APPEND "${partial}" ")fovea\"},\n")
endforeach()
list(LENGTH names count)
file(APPEND "${partial}" "};\nconst int k${TABLE}Count = ${count};\n\n}  // namespace fovea::cuda\n")
file(RENAME "${partial}" "${OUTPUT}")
