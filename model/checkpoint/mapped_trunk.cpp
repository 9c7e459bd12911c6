#include "model/checkpoint/mapped_trunk.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <optional>
#include <system_error>

#include "model/checkpoint/copies.hpp"
#include "model/checkpoint/quantise.hpp"
#include "model/checkpoint/safetensors.hpp"
#include "model/checkpoint/tensor_list.hpp"

namespace k3::checkpoint {
namespace {

constexpr const char* remedy =
    "; without --mmap it is read into memory, and a container made by `k3 repack` at these bits can be mapped";

std::optional<Error> misplaced(const Checkpoint& checkpoint, const Tensor& tensor, const std::string& name) {
  const std::uint64_t element = dtype_bytes(tensor.dtype);
  if (element == 0 || tensor.offset % element == 0) return std::nullopt;
  return Error{.code = ErrorCode::unsupported,
               .message = "tensor " + name + " cannot be mapped: its numbers do not lie at multiples of their size" + remedy,
               .file = checkpoint.files()[tensor.file].path.string(),
               .offset = static_cast<std::int64_t>(tensor.offset),
               .expected = "a multiple of " + std::to_string(element)};
}

Result<void> check(const Checkpoint& checkpoint, const std::string& name, const TrunkPrecision& precision, bool is_kda) {
  const auto stored = stored_matrix(checkpoint, name);
  if (!stored) return fail(ErrorCode::internal, "matrix " + name + " was not checked when the checkpoint was opened");
  const Precision wanted = possible(precision.of(bits_of(name, is_kda)), stored->columns);
  if (wanted != stored->precision) {
    return Error{.code = ErrorCode::invalid_argument,
                 .message = "tensor " + name + " cannot be mapped: it would have to be rounded" + remedy,
                 .file = checkpoint.files()[stored->data->file].path.string(),
                 .expected = std::to_string(bits(stored->precision)) + " bits, as stored",
                 .got = std::to_string(bits(wanted))};
  }
  if (auto error = misplaced(checkpoint, *stored->data, name)) return *error;
  if (stored->scales == nullptr) return {};
  if (auto error = misplaced(checkpoint, *stored->scales, name + scales_ending)) return *error;
  return {};
}

Result<std::shared_ptr<const char>> map_file(const Copy& copy, std::uint64_t bytes) {
  const auto handle = FileHandle::open(copy.path);
  if (!handle) return handle.error();
  void* const memory = ::mmap(nullptr, bytes, PROT_READ, MAP_SHARED, handle->fd(), 0);
  if (memory == MAP_FAILED) return fail(ErrorCode::io, std::generic_category().message(errno));
  return std::shared_ptr<const char>(static_cast<const char*>(memory), [memory, bytes](const char*) { ::munmap(memory, bytes); });
}

}  // namespace

Result<void> check_mappable(const Checkpoint& checkpoint, std::size_t max_layers, const TrunkPrecision& wanted) {
  const Config& config = checkpoint.config();
  const std::size_t layers = max_layers == 0 ? config.layers : std::min(max_layers, config.layers);
  const auto check_all = [&](const std::vector<ExpectedTensor>& tensors, bool is_kda) -> Result<void> {
    for (const ExpectedTensor& tensor : tensors) {
      if (!is_matrix(tensor)) continue;
      if (auto done = check(checkpoint, tensor.name, wanted, is_kda); !done) return done;
    }
    return {};
  };
  auto done = check_all(expected_globals(config), false);
  for (std::size_t layer = 0; done && layer < layers; ++layer) {
    done = check_all(expected_layer(config, layer), config.is_kda[layer]);
  }
  return done;
}

Result<const void*> MappedTrunk::place(const Tensor& tensor, const std::string& name) {
  const File& file = checkpoint_.files()[tensor.file];
  Mapping& mapping = files_[tensor.file];
  std::optional<Error> first;
  for (const Copy& copy : copies_of(file)) {
    if (mapping) break;
    auto mapped = map_file(copy, file.bytes);
    if (mapped) mapping = std::move(*mapped);
    if (!mapped && !first) first = mapped.error();
  }
  if (mapping) return static_cast<const void*>(mapping.get() + tensor.offset);
  return Error{.code = ErrorCode::io,
               .message = "tensor " + name + " cannot be mapped (" + first->message + "); without --mmap it is read into memory",
               .file = file.path.string()};
}

std::shared_ptr<const void> MappedTrunk::storage() const { return std::make_shared<std::vector<Mapping>>(files_); }

}  // namespace k3::checkpoint
