#include "model/checkpoint/weights.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <bit>
#include <cassert>
#include <cmath>
#include <cstring>
#include <deque>

#include "model/checkpoint/copies.hpp"
#include "model/checkpoint/mapped_trunk.hpp"
#include "model/checkpoint/pieces.hpp"
#include "model/checkpoint/quantise.hpp"
#include "model/checkpoint/stored_matrix.hpp"
#include "model/checkpoint/tensor_list.hpp"

namespace k3::checkpoint {
namespace {

constexpr std::uint64_t huge_page = 2U << 20;

// Anonymous memory, on huge pages where the kernel grants them: the trunk is walked from end to end for every token.
Result<std::shared_ptr<void>> map_storage(std::uint64_t bytes) {
  const std::uint64_t length = round_up(std::max<std::uint64_t>(bytes, 1), huge_page);
  void* memory = ::mmap(nullptr, length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) {
    return fail(ErrorCode::out_of_memory, "the trunk needs " + std::to_string(bytes) + " bytes, which the system refuses");
  }
  ::madvise(memory, length, MADV_HUGEPAGE);  // advice: a refusal costs speed only
  return std::shared_ptr<void>(memory, [length](void* p) { ::munmap(p, length); });
}

// Hands out places for matrices and reads vectors at once. The first error sticks; what follows it is not used.
class Builder {
 public:
  Builder(const Checkpoint& checkpoint, const TrunkPrecision& precision, char* base, std::uint64_t capacity,
          const StreamedShare& share, MappedTrunk* mapped)
      : checkpoint_(checkpoint), precision_(precision), base_(base), capacity_(capacity), share_(share), mapped_(mapped) {
    for (const File& file : checkpoint.files()) files_.emplace_back(file);
  }

  // Attention matrices share names between the two kinds, but not a precision.
  void enter_layer(bool is_kda) { in_kda_ = is_kda; }

  Matrix matrix(const std::string& name) {
    const auto stored = error_ ? std::nullopt : stored_matrix(checkpoint_, name);
    if (!stored) return give_up(name), Matrix{};
    const std::size_t rows = stored->rows, columns = stored->columns;
    const Precision precision = possible(precision_.of(bits_of(name, in_kda_)), columns);
    if (bits(precision) > bits(stored->precision)) return refuse(name, *stored, precision), Matrix{};
    if (mapped_ != nullptr) return map(name, *stored);
    if (share_.whole == false && kind_of(name, *stored, precision) != MatrixKind::fixed) {
      if (auto on_drive = leave(name, *stored)) return *on_drive;
    }
    const QuantisedSize size = quantised_size(precision, rows, columns);
    char* const data = take(size.bytes);
    auto* const scale = size.scales == 0 ? nullptr : reinterpret_cast<float*>(take(size.scales * sizeof(float)));
    names_.push_back(name);
    cut(*stored, {data, scale, rows, columns, precision, &names_.back()});
    return {data, scale, rows, columns, precision};
  }

  Vector vector(const std::string& name) {
    const Tensor* tensor = find(name);
    if (tensor == nullptr || (tensor->dtype != DType::bf16 && tensor->dtype != DType::f32)) return give_up(name), Vector{};
    std::vector<char> raw(tensor->bytes);
    read(*tensor, raw.data());
    Vector values = widen(*tensor, raw);
    const auto bad = std::find_if(values.begin(), values.end(), [](float value) { return !std::isfinite(value); });
    if (bad != values.end() && !error_) {
      const auto element = static_cast<std::uint64_t>(bad - values.begin());
      error_ = Error{.code = ErrorCode::corrupt,
                     .message = "tensor " + name + " holds a value that is not a finite number",
                     .file = checkpoint_.files()[tensor->file].path.string(),
                     .offset = static_cast<std::int64_t>(tensor->offset + element * (tensor->bytes / values.size()))};
    }
    bytes_ += values.size() * sizeof(float);
    return values;
  }

  ResidualWeights residual(const std::string& prefix) {
    Vector score = vector(prefix + "_norm.weight");
    const Vector proj = vector(prefix + "_proj.weight");
    for (std::size_t i = 0; i < std::min(score.size(), proj.size()); ++i) score[i] *= proj[i];
    return {std::move(score)};
  }

  // exp(A_log) a head; released with padding behind the heads. In double, so that the float is the nearest one everywhere.
  Vector decay(const std::string& name, std::size_t heads) {
    Vector a = vector(name);
    a.resize(heads);
    for (auto& value : a) value = static_cast<float>(std::exp(static_cast<double>(value)));
    return a;
  }

  // After matrix() of it.
  std::optional<StreamedMatrix> take_streamed_embedding() { return std::move(streamed_embedding_); }
  std::vector<StreamedMatrix> take_streamed() { return std::move(streamed_); }

  const std::optional<Error>& error() const { return error_; }
  std::span<const Piece> pieces() const { return pieces_; }

  // Reads one piece to where it belongs, rounded if it is to be. Any thread.
  Result<void> load(const Piece& piece, const FileHandle& file, const std::string& name) const {
    const Part& part = parts_[piece.tag];
    if (part.as_stored != nullptr) return file.read(part.as_stored, piece.bytes, piece.offset, name);
    std::vector<std::uint16_t> raw(piece.bytes / 2 + piece.bytes % 2);
    if (auto done = file.read(raw.data(), piece.bytes, piece.offset, name); !done) return done;
    const Place& to = part.to;
    const QuantisedSize before = quantised_size(to.precision, part.first_row, to.columns);
    char* const data = to.data + before.bytes;
    float* const scale = to.scale + before.scales;
    const bool finite = part.stored_scales == nullptr
                            ? quantise_rows(to.precision, raw.data(), part.rows, to.columns, data, scale)
                            : int8_to_int4(reinterpret_cast<const std::int8_t*>(raw.data()), part.stored_scales + part.first_row,
                                           part.rows, to.columns, reinterpret_cast<std::uint8_t*>(data), scale);
    if (finite) return {};
    return Error{.code = ErrorCode::corrupt,
                 .message = "matrix " + *to.name + " holds a value that is not a finite number",
                 .file = name,
                 .offset = static_cast<std::int64_t>(piece.offset)};
  }
  std::uint64_t bytes() const { return bytes_; }

 private:
  // As stored, and where it is stored: check_mappable() has seen that it may be used so.
  Matrix map(const std::string& name, const StoredMatrix& stored) {
    Matrix matrix{place(*stored.data, name), nullptr, stored.rows, stored.columns, stored.precision};
    if (stored.scales != nullptr) matrix.scale = static_cast<const float*>(place(*stored.scales, name + scales_ending));
    return matrix;
  }

  const void* place(const Tensor& tensor, const std::string& name) {
    const auto mapped = mapped_->place(tensor, name);
    if (!mapped && !error_) error_ = mapped.error();
    bytes_ += tensor.bytes;
    return mapped ? *mapped : nullptr;
  }

  // The matrix as it is on the drive, if it is its turn to stay there.
  std::optional<Matrix> leave(const std::string& name, const StoredMatrix& stored) {
    const QuantisedSize size = quantised_size(stored.precision, stored.rows, stored.columns);
    StreamedMatrix on_drive{stored.data->file, stored.data->offset, size.bytes / stored.rows, stored.rows, name};
    Matrix matrix{nullptr, nullptr, stored.rows, stored.columns, stored.precision};
    if (name == embedding_name) {
      streamed_embedding_ = std::move(on_drive);
      return matrix;
    }
    if (!share_.leave(size.bytes)) return std::nullopt;
    if (stored.scales != nullptr) {
      auto* const scale = reinterpret_cast<float*>(take(size.scales * sizeof(float)));
      cut_as_stored(*stored.scales, reinterpret_cast<char*>(scale));
      matrix.scale = scale;
    }
    matrix.streamed = static_cast<std::uint32_t>(streamed_.size());
    streamed_.push_back(std::move(on_drive));
    return matrix;
  }

  struct Place {
    char* data;
    float* scale;
    std::size_t rows, columns;
    Precision precision;
    const std::string* name;
  };
  // What one piece of a file becomes: the same bytes at `as_stored`, or rows rounded to `to`.
  struct Part {
    char* as_stored = nullptr;
    Place to{};
    std::size_t first_row = 0, rows = 0;
    const float* stored_scales = nullptr;  // [to.rows]: the rows are int8
  };

  char* take(std::uint64_t bytes) {
    assert(used_ + bytes <= capacity_);
    char* const place = base_ + used_;
    used_ += round_up(bytes, matrix_alignment);
    bytes_ += bytes;
    return place;
  }

  void cut(const StoredMatrix& stored, const Place& to) {
    if (stored.precision == to.precision) {
      cut_as_stored(*stored.data, to.data);
      if (stored.scales != nullptr) cut_as_stored(*stored.scales, reinterpret_cast<char*>(to.scale));
      return;
    }
    const float* scales = nullptr;
    if (stored.scales != nullptr) {
      stored_scales_.emplace_back(to.rows);
      read(*stored.scales, reinterpret_cast<char*>(stored_scales_.back().data()));
      scales = stored_scales_.back().data();
    }
    // Whole rows each, for a row's scale asks for the whole row.
    const std::uint64_t row_bytes = quantised_size(stored.precision, 1, to.columns).bytes;
    const std::size_t rows_a_piece = std::max<std::size_t>(1, piece_bytes / row_bytes);
    for (std::size_t row = 0; row < to.rows; row += rows_a_piece) {
      const std::size_t rows = std::min(rows_a_piece, to.rows - row);
      pieces_.push_back({stored.data->file, stored.data->offset + row * row_bytes, rows * row_bytes, parts_.size()});
      parts_.push_back({nullptr, to, row, rows, scales});
    }
  }

  void cut_as_stored(const Tensor& tensor, char* to) {
    const std::size_t first = pieces_.size();
    append_pieces(pieces_, tensor, 0);
    for (std::size_t i = first; i < pieces_.size(); ++i) {
      pieces_[i].tag = parts_.size();
      parts_.push_back({.as_stored = to + (pieces_[i].offset - tensor.offset)});
    }
  }

  const Tensor* find(const std::string& name) const { return error_ ? nullptr : checkpoint_.find(name); }

  // open() has checked every tensor, so this is reached only after an earlier error, or when the two lists of names differ.
  void give_up(const std::string& name) {
    if (!error_) error_ = fail(ErrorCode::internal, "tensor " + name + " was not checked when the checkpoint was opened");
  }

  void refuse(const std::string& name, const StoredMatrix& stored, Precision wanted) {
    error_ = Error{.code = ErrorCode::invalid_argument,
                   .message = "matrix " + name + " is already rounded; what was rounded away does not come back",
                   .file = checkpoint_.files()[stored.data->file].path.string(),
                   .expected = "at most " + std::to_string(bits(stored.precision)) + " bits",
                   .got = std::to_string(bits(wanted))};
  }

  void read(const Tensor& tensor, char* to) {
    const auto done = files_[tensor.file].read(to, tensor.bytes, tensor.offset);
    if (!done) error_ = done.error();
  }

  static Vector widen(const Tensor& tensor, const std::vector<char>& raw) {
    if (tensor.dtype == DType::f32) {
      Vector values(raw.size() / sizeof(float));
      std::memcpy(values.data(), raw.data(), raw.size());
      return values;
    }
    Vector values(raw.size() / 2);
    for (std::size_t i = 0; i < values.size(); ++i) {
      std::uint16_t bits = 0;
      std::memcpy(&bits, raw.data() + i * 2, 2);
      values[i] = std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16);
    }
    return values;
  }

  const Checkpoint& checkpoint_;
  const TrunkPrecision precision_;
  bool in_kda_ = false;
  char* base_;
  std::uint64_t capacity_, used_ = 0, bytes_ = 0;
  StreamedShare share_;
  MappedTrunk* mapped_;  // nullptr: matrices are read into memory
  std::vector<StreamedMatrix> streamed_;
  std::optional<StreamedMatrix> streamed_embedding_;
  std::vector<AnyCopy> files_;
  std::vector<Piece> pieces_;
  std::vector<Part> parts_;        // [pieces]
  std::deque<std::string> names_;  // of the matrices; what points into these two stays where it is
  std::deque<std::vector<float>> stored_scales_;
  std::optional<Error> error_;
};

MlpWeights build_mlp(Builder& b, const std::string& prefix) {
  MlpWeights w;
  w.gate = b.matrix(prefix + "gate_proj.weight");
  w.up = b.matrix(prefix + "up_proj.weight");
  w.down = b.matrix(prefix + "down_proj.weight");
  return w;
}

MoeWeights build_moe(Builder& b, const std::string& prefix) {
  MoeWeights w;
  w.router = b.matrix(prefix + "gate.weight");
  w.router_bias = b.vector(prefix + "gate.e_score_correction_bias");
  w.down = b.matrix(prefix + "routed_expert_down_proj.weight");
  w.up = b.matrix(prefix + "routed_expert_up_proj.weight");
  w.norm = b.vector(prefix + "routed_expert_norm.weight");
  w.shared = build_mlp(b, prefix + "shared_experts.");
  return w;
}

KdaWeights build_kda(Builder& b, const std::string& prefix, const Config& config) {
  KdaWeights w;
  w.q = b.matrix(prefix + "q_proj.weight");
  w.k = b.matrix(prefix + "k_proj.weight");
  w.v = b.matrix(prefix + "v_proj.weight");
  w.g = b.matrix(prefix + "g_proj.weight");
  w.o = b.matrix(prefix + "o_proj.weight");
  w.q_conv = b.vector(prefix + "q_conv1d.weight");
  w.k_conv = b.vector(prefix + "k_conv1d.weight");
  w.v_conv = b.vector(prefix + "v_conv1d.weight");
  w.f_a = b.matrix(prefix + "f_a_proj.weight");
  w.f_b = b.matrix(prefix + "f_b_proj.weight");
  w.b = b.matrix(prefix + "b_proj.weight");
  w.a = b.decay(prefix + "A_log", config.kda_heads);
  w.dt_bias = b.vector(prefix + "dt_bias");
  w.o_norm = b.vector(prefix + "o_norm.weight");
  return w;
}

MlaWeights build_mla(Builder& b, const std::string& prefix) {
  MlaWeights w;
  w.q_a = b.matrix(prefix + "q_a_proj.weight");
  w.q_norm = b.vector(prefix + "q_a_layernorm.weight");
  w.q_b = b.matrix(prefix + "q_b_proj.weight");
  w.kv_a = b.matrix(prefix + "kv_a_proj_with_mqa.weight");
  w.kv_norm = b.vector(prefix + "kv_a_layernorm.weight");
  w.kv_b = b.matrix(prefix + "kv_b_proj.weight");
  w.g = b.matrix(prefix + "g_proj.weight");
  w.o = b.matrix(prefix + "o_proj.weight");
  return w;
}

LayerWeights build_layer(Builder& b, const Config& config, std::size_t layer) {
  const std::string prefix = "model.layers." + std::to_string(layer) + ".";
  b.enter_layer(config.is_kda[layer]);
  LayerWeights w;
  w.attention_residual = b.residual(prefix + "self_attention_res");
  w.mlp_residual = b.residual(prefix + "mlp_res");
  w.input_norm = b.vector(prefix + "input_layernorm.weight");
  w.post_attention_norm = b.vector(prefix + "post_attention_layernorm.weight");
  if (config.is_kda[layer]) {
    w.attention = build_kda(b, prefix + "self_attn.", config);
  } else {
    w.attention = build_mla(b, prefix + "self_attn.");
  }
  if (config.is_dense(layer)) {
    w.mlp = build_mlp(b, prefix + "mlp.");
  } else {
    w.mlp = build_moe(b, prefix + "block_sparse_moe.");
  }
  return w;
}

}  // namespace

Result<Weights> load_weights(const Checkpoint& checkpoint, unsigned threads, std::size_t max_layers,
                             const TrunkPrecision& precision, const std::function<void(std::uint64_t, std::uint64_t)>& progress,
                             const Residency& residency) {
  const Config& config = checkpoint.config();
  const std::size_t layers = max_layers == 0 ? config.layers : std::min(max_layers, config.layers);
  std::optional<MappedTrunk> mapped;
  if (residency.mapped) {
    if (auto possible = check_mappable(checkpoint, max_layers, precision); !possible) return possible.error();
    mapped.emplace(checkpoint);
  }
  std::uint64_t capacity = mapped ? 0 : trunk_bytes(config, max_layers, precision);
  StreamedShare share;
  if (!residency.whole) {
    const TrunkSizes sizes = trunk_sizes(checkpoint, max_layers, precision);
    const std::uint64_t kept = std::min(sizes.streamable, residency.streamable);
    capacity = sizes.fixed + kept;
    share = {.whole = false, .streamable = sizes.streamable, .streamed = sizes.streamable - kept};
  }
  auto storage = map_storage(capacity);
  if (!storage) return storage.error();
  auto* base = static_cast<char*>(storage->get());

  Builder builder(checkpoint, precision, base, capacity, share, mapped ? &*mapped : nullptr);
  Weights weights;
  weights.embedding = builder.matrix(embedding_name);
  weights.layers.reserve(layers);
  for (std::size_t layer = 0; layer < layers; ++layer) weights.layers.push_back(build_layer(builder, config, layer));
  weights.output_residual = builder.residual("model.output_attn_res");
  weights.final_norm = builder.vector("model.norm.weight");
  weights.head = builder.matrix("lm_head.weight");
  if (builder.error()) return *builder.error();

  const PieceWork work = [&builder](const Piece& piece, const FileHandle& file, const std::string& name) {
    return builder.load(piece, file, name);
  };
  auto done = for_each_piece(checkpoint.files(), builder.pieces(), threads, work, progress);
  if (!done) return done.error();
  weights.streamed = builder.take_streamed();
  weights.streamed_embedding = builder.take_streamed_embedding();
  weights.storage = mapped ? mapped->storage() : std::move(*storage);
  weights.bytes = builder.bytes();
  return weights;
}

}  // namespace k3::checkpoint
