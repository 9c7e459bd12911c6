# cmake -DOUTPUT=FILE.cpp -DROOT=DIR -DFILES=a;b -P embed.cmake: the files, as byte arrays named by their path below ROOT.
set(arrays "")
set(table "")
set(index 0)
foreach(file IN LISTS FILES)
  file(RELATIVE_PATH path ${ROOT} ${file})
  file(READ ${file} hex HEX)
  string(LENGTH "${hex}" length)
  math(EXPR length "${length} / 2")
  string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," bytes "${hex}")
  string(REGEX REPLACE "(0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,)" "\\1\n" bytes "${bytes}")
  # One more byte than the file has, because an array cannot be empty.
  string(APPEND arrays "const unsigned char file_${index}[] = {\n${bytes}0};\n")
  string(APPEND table "    {\"/${path}\", {reinterpret_cast<const char*>(file_${index}), ${length}}},\n")
  math(EXPR index "${index} + 1")
endforeach()
file(WRITE ${OUTPUT} "// Generated from the files of the web client.
#include \"server/static_files.hpp\"

#include <array>

namespace k3::server {
namespace {
${arrays}
const std::array<EmbeddedFile, ${index}> table{{
${table}}};
}  // namespace

std::span<const EmbeddedFile> embedded_files() { return table; }

}  // namespace k3::server
")
