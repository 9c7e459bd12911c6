// How a trunk matrix lies on the drive: as released, or prepared, which is rounded and with its scales in a tensor beside it.
#pragma once

#include <optional>
#include <string>

#include "model/checkpoint/checkpoint.hpp"
#include "model/checkpoint/precision.hpp"

namespace k3::checkpoint {

// int8: NAME is U8 [rows, columns], NAME.qs F32 [rows]. int4: NAME is U8 [rows, columns / 2], NAME.qs F32 [rows, columns / 64].
inline constexpr const char* scales_ending = ".qs";

struct StoredMatrix {
  const Tensor* data = nullptr;    // the checkpoint's
  const Tensor* scales = nullptr;  // nullptr: bf16
  std::size_t rows = 0, columns = 0;
  Precision precision = Precision::bf16;
};

// nullopt: the two are no matrix. `scales` may be nullptr; beside a matrix that is not rounded it is not looked at.
std::optional<StoredMatrix> stored_matrix(const Tensor* data, const Tensor* scales);
std::optional<StoredMatrix> stored_matrix(const Checkpoint& checkpoint, const std::string& name);

struct StoredPrecision {
  bool prepared = false;  // at least one matrix is rounded
  TrunkPrecision precision;
};
// An error when matrices under one switch are stored in different bits: no container is written so.
Result<StoredPrecision> stored_precision(const Checkpoint& checkpoint);

// Fine, or an error that says how many bits are stored: what was rounded away does not come back.
Result<void> check_bits(const StoredPrecision& stored, const TrunkPrecision& wanted);

}  // namespace k3::checkpoint
