#include "model/checkpoint/residency.hpp"

#include <algorithm>

#include "model/checkpoint/quantise.hpp"
#include "model/checkpoint/tensor_list.hpp"

namespace k3::checkpoint {
namespace {

std::uint64_t matrix_bytes(const std::vector<ExpectedTensor>& tensors, const TrunkPrecision& precision, bool is_kda) {
  std::uint64_t bytes = 0;
  // The residual projections [1, hidden] are counted too, though they become vectors: an upper bound is enough.
  for (const auto& tensor : tensors) {
    if (tensor.dtype != DType::bf16 || tensor.rank != 2) continue;
    const Precision to = possible(precision.of(bits_of(tensor.name, is_kda)), tensor.shape[1]);
    const QuantisedSize size = quantised_size(to, tensor.shape[0], tensor.shape[1]);
    bytes += round_up(size.bytes, matrix_alignment) + round_up(size.scales * sizeof(float), matrix_alignment);
  }
  return bytes;
}

}  // namespace

MatrixKind kind_of(std::string_view name, const StoredMatrix& stored, Precision wanted) {
  // Kernels read bf16 through pointers to it: a file may put it at an odd byte.
  if (stored.precision != wanted || (wanted == Precision::bf16 && stored.data->offset % 2 != 0)) return MatrixKind::fixed;
  if (name == embedding_name) return MatrixKind::embedding;
  constexpr std::uint64_t small = 4096;  // a sector
  if (name.ends_with("kv_b_proj.weight") || name.ends_with("block_sparse_moe.gate.weight") ||
      quantised_size(wanted, stored.rows, stored.columns).bytes < small) {
    return MatrixKind::fixed;
  }
  return MatrixKind::streamable;
}

bool StreamedShare::leave(std::uint64_t bytes) {
  passed += bytes;
  const double due = static_cast<double>(passed) * static_cast<double>(streamed) / static_cast<double>(streamable);
  if (static_cast<double>(left) >= due) return false;
  left += bytes;
  return true;
}

std::uint64_t trunk_bytes(const Config& config, std::size_t max_layers, const TrunkPrecision& precision) {
  const std::size_t layers = max_layers == 0 ? config.layers : std::min(max_layers, config.layers);
  std::uint64_t bytes = matrix_bytes(expected_globals(config), precision, false);
  for (std::size_t layer = 0; layer < layers; ++layer) {
    bytes += matrix_bytes(expected_layer(config, layer), precision, config.is_kda[layer]);
  }
  return bytes;
}

TrunkSizes trunk_sizes(const Checkpoint& checkpoint, std::size_t max_layers, const TrunkPrecision& precision) {
  const Config& config = checkpoint.config();
  const std::size_t layers = max_layers == 0 ? config.layers : std::min(max_layers, config.layers);
  TrunkSizes sizes;
  const auto count = [&](const std::vector<ExpectedTensor>& tensors, bool is_kda) {
    for (const ExpectedTensor& tensor : tensors) {
      if (!is_matrix(tensor)) {  // widened
        const Tensor* const found = checkpoint.find(tensor.name);
        if (found != nullptr) sizes.fixed += found->dtype == DType::bf16 ? 2 * found->bytes : found->bytes;
        continue;
      }
      const auto stored = stored_matrix(checkpoint, tensor.name);
      if (!stored) continue;  // what open() let pass is there
      const Precision wanted = possible(precision.of(bits_of(tensor.name, is_kda)), stored->columns);
      const QuantisedSize size = quantised_size(wanted, stored->rows, stored->columns);
      const MatrixKind kind = kind_of(tensor.name, *stored, wanted);
      const std::uint64_t bytes = round_up(size.bytes, matrix_alignment);
      (kind == MatrixKind::embedding ? sizes.embedding : kind == MatrixKind::fixed ? sizes.fixed : sizes.streamable) += bytes;
      sizes.fixed += round_up(size.scales * sizeof(float), matrix_alignment);
    }
  };
  count(expected_globals(config), false);
  for (std::size_t layer = 0; layer < layers; ++layer) count(expected_layer(config, layer), config.is_kda[layer]);
  return sizes;
}

}  // namespace k3::checkpoint
