#include "model/checkpoint/container_bytes.hpp"

#include <fcntl.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "model/checkpoint/checksum.hpp"
#include "model/checkpoint/pieces.hpp"
#include "model/checkpoint/quantise.hpp"
#include "model/checkpoint/safetensors.hpp"

namespace k3::checkpoint {
namespace {

// Two or three experts.
constexpr std::uint64_t read_ahead_bytes = 48U << 20;
constexpr std::uint64_t sample_bytes = 4096;
constexpr std::size_t sampled_experts = 16;

}  // namespace

// Cuts what it is given into blocks.
class ContainerBytes::Cutter {
 public:
  Cutter(const ContainerShard& shard, const TakeBlock& take) : shard_(shard), take_(take) {}

  Result<void> add(std::span<const char> bytes) {
    while (skip_empty(), !bytes.empty()) {
      if (tensor_ == shard_.tensors.size()) return fail(ErrorCode::internal, "more data than was planned for " + shard_.file);
      const std::uint64_t size = shard_.tensors[tensor_].bytes(), block = std::min(piece_bytes, size - at_);
      Result<void> done;
      if (buffer_.empty() && bytes.size() >= block) {
        done = take(bytes.first(block), size);
        bytes = bytes.subspan(block);
      } else {
        const std::size_t more = std::min<std::size_t>(bytes.size(), block - buffer_.size());
        buffer_.insert(buffer_.end(), bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(more));
        bytes = bytes.subspan(more);
        if (buffer_.size() == block) {
          done = take(buffer_, size);
          buffer_.clear();
        }
      }
      if (!done) return done;
    }
    return {};
  }

  bool complete() {
    skip_empty();
    return tensor_ == shard_.tensors.size() && buffer_.empty();
  }

 private:
  // Tensors without elements have no block.
  void skip_empty() {
    while (tensor_ < shard_.tensors.size() && shard_.tensors[tensor_].bytes() == 0) ++tensor_;
  }

  Result<void> take(std::span<const char> block, std::uint64_t size) {
    auto done = take_(tensor_, at_, block);
    at_ += block.size();
    if (at_ == size) {
      ++tensor_;
      at_ = 0;
    }
    return done;
  }

  const ContainerShard& shard_;
  const TakeBlock& take_;
  std::vector<char> buffer_;
  std::size_t tensor_ = 0;
  std::uint64_t at_ = 0;  // of `tensor_`: what was taken of it
};

Result<void> ContainerBytes::stream(const ContainerShard& shard, const TakeBlock& take) {
  Cutter cutter(shard, take);
  ahead_ = 0;
  ahead_bytes_ = 0;
  for (std::size_t i = 0; i < shard.parts.size(); ++i) {
    read_ahead(shard, i);
    const ContainerPart& part = shard.parts[i];
    auto done = part.rounded ? round(part, cutter) : copy(part, cutter);
    if (!done) return done;
    ahead_bytes_ -= std::min(ahead_bytes_, part.source.bytes);
  }
  if (!cutter.complete()) return fail(ErrorCode::internal, "the data of " + shard.file + " is not what was planned");
  return {};
}

void ContainerBytes::read_ahead(const ContainerShard& shard, std::size_t part) {
  ahead_ = std::max(ahead_, part);
  for (; ahead_ < shard.parts.size() && ahead_bytes_ < read_ahead_bytes; ++ahead_) {
    const Tensor& tensor = shard.parts[ahead_].source;
    // Within a large matrix the kernel sees by itself that it is read in order.
    const std::uint64_t bytes = std::min(tensor.bytes, read_ahead_bytes);
    if (const int fd = files_[tensor.file].fd(); fd >= 0)
      ::posix_fadvise(fd, static_cast<off_t>(tensor.offset), static_cast<off_t>(bytes), POSIX_FADV_WILLNEED);
    ahead_bytes_ += tensor.bytes;
  }
}

Result<void> ContainerBytes::read(const Tensor& tensor, std::uint64_t at, void* to, std::uint64_t bytes) {
  return files_[tensor.file].read(to, bytes, tensor.offset + at);
}

Result<void> ContainerBytes::copy(const ContainerPart& part, Cutter& cutter) {
  for (std::uint64_t at = 0; at < part.source.bytes; at += piece_bytes) {
    const std::uint64_t bytes = std::min(piece_bytes, part.source.bytes - at);
    input_.resize(std::max<std::size_t>(input_.size(), bytes));
    auto done = read(part.source, at, input_.data(), bytes);
    if (done) done = cutter.add({input_.data(), bytes});
    if (!done) return done;
  }
  return {};
}

Result<void> ContainerBytes::round(const ContainerPart& part, Cutter& cutter) {
  const StoredMatrix& from = part.matrix;
  std::vector<float> scales(quantised_size(part.to, from.rows, from.columns).scales), stored_scales;
  if (from.scales != nullptr) {
    stored_scales.resize(from.rows);
    auto done = read(*from.scales, 0, stored_scales.data(), from.rows * sizeof(float));
    if (!done) return done;
  }
  const std::uint64_t row_bytes = quantised_size(from.precision, 1, from.columns).bytes;
  const std::size_t rows_a_piece = std::max<std::size_t>(1, piece_bytes / row_bytes);
  for (std::size_t row = 0; row < from.rows; row += rows_a_piece) {
    const std::size_t rows = std::min(rows_a_piece, from.rows - row);
    const QuantisedSize before = quantised_size(part.to, row, from.columns), size = quantised_size(part.to, rows, from.columns);
    input_.resize(std::max<std::size_t>(input_.size(), rows * row_bytes));
    output_.resize(std::max<std::size_t>(output_.size(), size.bytes));
    auto done = read(part.source, row * row_bytes, input_.data(), rows * row_bytes);
    if (!done) return done;
    float* const to_scale = scales.data() + before.scales;
    const bool finite = from.scales == nullptr
                            ? quantise_rows(part.to, reinterpret_cast<const std::uint16_t*>(input_.data()), rows, from.columns,
                                            output_.data(), to_scale)
                            : int8_to_int4(reinterpret_cast<const std::int8_t*>(input_.data()), stored_scales.data() + row, rows,
                                           from.columns, reinterpret_cast<std::uint8_t*>(output_.data()), to_scale);
    if (!finite) return not_finite(part, row * row_bytes);
    done = cutter.add({output_.data(), size.bytes});
    if (!done) return done;
  }
  return cutter.add({reinterpret_cast<const char*>(scales.data()), scales.size() * sizeof(float)});
}

Error ContainerBytes::not_finite(const ContainerPart& part, std::uint64_t at) const {
  return Error{.code = ErrorCode::corrupt,
               .message = "a matrix holds a value that is not a finite number; copy or download this file again",
               .file = source_.files()[part.source.file].path.string(),
               .offset = static_cast<std::int64_t>(part.source.offset + at)};
}

Result<std::string> ContainerBytes::identity(const ContainerShard& shard) {
  const std::size_t experts = source_.config().experts, step = std::max<std::size_t>(1, experts / sampled_experts) * 6;
  std::string all;
  for (std::size_t i = 0, expert_part = 0; i < shard.parts.size(); ++i) {
    const Tensor& source = shard.parts[i].source;
    // The names of what is written are in its header; here is what it was made from.
    all += describe_type(source.dtype, source.shape, source.rank);
    const bool is_expert = i < shard.tensors.size() && shard.tensors[i].name.find(".experts.") != std::string::npos;
    if (is_expert && expert_part++ % step != 0) continue;
    const std::uint64_t bytes = std::min(sample_bytes, source.bytes);
    const std::size_t end = all.size();
    all.resize(end + bytes);
    auto done = read(source, 0, all.data() + end, bytes);
    if (!done) return done.error();
  }
  return fmt::format("{:016x}", xxh64(all.data(), all.size()));
}

}  // namespace k3::checkpoint
