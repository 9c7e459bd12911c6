#include "server/static_files.hpp"

#include "server/endpoints.hpp"

namespace k3::server {
namespace {

const EmbeddedFile* find_file(std::string_view path) {
  if (path == "/") path = "/index.html";
  for (const auto& file : embedded_files()) {
    if (file.path == path) return &file;
  }
  return nullptr;
}

std::string_view content_type(std::string_view path) {
  constexpr std::pair<std::string_view, std::string_view> kTypes[] = {
      {".html", "text/html; charset=utf-8"},
      {".js", "text/javascript; charset=utf-8"},
      {".css", "text/css; charset=utf-8"},
      {".svg", "image/svg+xml"},
      {".png", "image/png"},
      {".ico", "image/x-icon"},
      {".json", "application/json"},
      {".webmanifest", "application/manifest+json"},
      {".woff2", "font/woff2"},
      {".txt", "text/plain; charset=utf-8"},
  };
  for (const auto& [suffix, type] : kTypes) {
    if (path.ends_with(suffix)) return type;
  }
  return "application/octet-stream";
}

}  // namespace

bool has_static_file(std::string_view path) { return find_file(path) != nullptr; }

Response static_file(const Request& request, App&) {
  const EmbeddedFile* file = find_file(request.path);
  Response response{.content_type = std::string(content_type(file->path)), .body = std::string(file->bytes)};
  // Model output is shown on this page: nothing but our own files may run or be fetched, whatever gets into it.
  response.headers.emplace_back("Content-Security-Policy",
                                "default-src 'self'; img-src 'self' data: blob:; object-src 'none'; frame-ancestors 'none'; "
                                "base-uri 'none'; form-action 'none'");
  response.headers.emplace_back("Referrer-Policy", "no-referrer");
  response.headers.emplace_back("Cache-Control", "no-cache");
  return response;
}

}  // namespace k3::server
