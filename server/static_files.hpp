// The web client's files, embedded at build time (embed.cmake writes the table).
#pragma once

#include <span>
#include <string_view>

namespace k3::server {

struct EmbeddedFile {
  std::string_view path;  // "/app.js"
  std::string_view bytes;
};
std::span<const EmbeddedFile> embedded_files();

}  // namespace k3::server
