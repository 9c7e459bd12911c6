// The header of a safetensors file: 8 bytes of length, then JSON {"name": {"dtype", "shape", "data_offsets"}}, then the data.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "model/checkpoint/checkpoint.hpp"

namespace k3::checkpoint {

// The format's own bound. A released shard's header is about 0.8 MB.
inline constexpr std::uint64_t max_header_bytes = 100'000'000;

struct NamedTensor {
  std::string name;
  Tensor tensor;  // `file` is left 0
};

struct Header {
  std::vector<NamedTensor> tensors;                           // in the order of their data
  std::vector<std::pair<std::string, std::string>> metadata;  // "__metadata__", which says nothing about the tensors' places
  std::uint64_t file_bytes = 0;

  const std::string* find_metadata(std::string_view key) const;  // nullptr: there is none
};

// `json` is the header without its length; `file_bytes` the size of the file.
// Checked: every range lies in the file and holds exactly dtype x shape; together they cover the data without gap or overlap, as
// the format demands; no name occurs twice. `name` is for the error messages. Pure, so that it can be fuzzed.
Result<Header> parse_header(std::string_view json, std::uint64_t file_bytes, const std::string& name);

// The JSON of a header as it stands, and the size of its file.
struct HeaderText {
  std::string json;
  std::uint64_t file_bytes = 0;
};
Result<HeaderText> read_header_text(const std::filesystem::path& path);
// Opens `path`, reads its header once and parses it.
Result<Header> read_header(const std::filesystem::path& path);

std::string_view dtype_name(DType dtype);
// Bytes of one element; 0 for `other`.
std::uint64_t dtype_bytes(DType dtype);
// e.g. "BF16 [96, 7168]"
std::string describe_type(DType dtype, const std::array<std::uint64_t, 4>& shape, std::size_t rank);

}  // namespace k3::checkpoint
