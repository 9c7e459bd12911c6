#include "model/checkpoint/stored_matrix.hpp"

#include <array>

#include "model/checkpoint/quantise.hpp"
#include "model/checkpoint/tensor_list.hpp"

namespace k3::checkpoint {
namespace {

// What was seen of the matrices under one switch. One whose columns are no whole groups of 64 is int8 where its fellows are int4,
// so an int8 of that kind decides nothing.
struct Seen {
  std::optional<Precision> decided;
  bool undecided_int8 = false;
  std::string name;  // of the last matrix

  Precision precision() const { return decided.value_or(undecided_int8 ? Precision::int8 : Precision::bf16); }
};

class Survey {
 public:
  explicit Survey(const Checkpoint& checkpoint) : checkpoint_(checkpoint) {}

  Result<void> add(const std::vector<ExpectedTensor>& tensors, bool is_kda) {
    for (const auto& tensor : tensors) {
      if (tensor.dtype != DType::bf16 || tensor.rank != 2) continue;
      const BitsOf which = bits_of(tensor.name, is_kda);
      if (which == BitsOf::released) continue;
      auto added = add(tensor.name, seen_[static_cast<std::size_t>(which)]);
      if (!added) return added;
    }
    return {};
  }

  StoredPrecision result() const {
    const auto of = [this](BitsOf which) { return seen_[static_cast<std::size_t>(which)].precision(); };
    StoredPrecision stored{.precision = {of(BitsOf::most), of(BitsOf::mla), of(BitsOf::head)}};
    stored.prepared = !stored.precision.exact();
    return stored;
  }

 private:
  Result<void> add(const std::string& name, Seen& seen) {
    const auto matrix = stored_matrix(checkpoint_, name);
    if (!matrix) return fail(ErrorCode::internal, "matrix " + name + " was not checked when the checkpoint was opened");
    const bool undecided = matrix->precision == Precision::int8 && possible(Precision::int4, matrix->columns) == Precision::int8;
    const Precision before = seen.decided.value_or(matrix->precision);
    if (undecided) {
      seen.undecided_int8 = true;
    } else {
      seen.decided = matrix->precision;
    }
    const bool differ = (!undecided && before != matrix->precision) || (seen.undecided_int8 && seen.decided == Precision::bf16);
    if (differ) {
      return Error{.code = ErrorCode::unsupported,
                   .message = "matrices that belong together are stored in different bits: " + seen.name + " and " + name,
                   .file = checkpoint_.directory().string()};
    }
    seen.name = name;
    return {};
  }

  const Checkpoint& checkpoint_;
  std::array<Seen, 4> seen_;  // by BitsOf
};

Result<void> check_bits(const char* what, Precision stored, Precision wanted) {
  if (bits(wanted) <= bits(stored)) return {};
  Error error = fail(ErrorCode::invalid_argument,
                     std::string("this checkpoint's ") + what + " are already rounded; what was rounded away does not come back");
  error.expected = "at most " + std::to_string(bits(stored)) + " bits, which is what is stored";
  error.got = std::to_string(bits(wanted));
  return error;
}

}  // namespace

std::optional<StoredMatrix> stored_matrix(const Tensor* data, const Tensor* scales) {
  if (data == nullptr || data->rank != 2) return std::nullopt;
  const std::size_t rows = data->shape[0], columns = data->shape[1];
  if (data->dtype == DType::bf16) return StoredMatrix{data, nullptr, rows, columns, Precision::bf16};
  if (data->dtype != DType::u8 || scales == nullptr || scales->dtype != DType::f32 || scales->shape[0] != rows) return std::nullopt;
  if (scales->rank == 1) return StoredMatrix{data, scales, rows, columns, Precision::int8};
  // Compared as groups, for a shape from a file times 64 may overflow.
  const bool fits = scales->rank == 2 && columns % (int4_group / 2) == 0 && columns / (int4_group / 2) == scales->shape[1];
  if (!fits) return std::nullopt;
  return StoredMatrix{data, scales, rows, columns * 2, Precision::int4};
}

std::optional<StoredMatrix> stored_matrix(const Checkpoint& checkpoint, const std::string& name) {
  return stored_matrix(checkpoint.find(name), checkpoint.find(name + scales_ending));
}

Result<StoredPrecision> stored_precision(const Checkpoint& checkpoint) {
  const Config& config = checkpoint.config();
  Survey survey(checkpoint);
  auto done = survey.add(expected_globals(config), false);
  for (std::size_t layer = 0; done && layer < config.layers; ++layer) {
    done = survey.add(expected_layer(config, layer), config.is_kda[layer]);
  }
  if (!done) return done.error();
  return survey.result();
}

Result<void> check_bits(const StoredPrecision& stored, const TrunkPrecision& wanted) {
  auto fits = check_bits("weights (--bits)", stored.precision.most, wanted.most);
  if (fits) fits = check_bits("latent attention weights (--mla-bits)", stored.precision.mla, wanted.mla);
  if (fits) fits = check_bits("head weights (--head-bits)", stored.precision.head, wanted.head);
  return fits;
}

}  // namespace k3::checkpoint
