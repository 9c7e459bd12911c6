#include "model/checkpoint/verify.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <mutex>

#include "model/checkpoint/pieces.hpp"
#include "model/checkpoint/safetensors.hpp"
#include "model/checkpoint/tensor_list.hpp"

namespace k3::checkpoint {
namespace {

constexpr std::size_t max_findings = 1000;

enum class Content : std::uint8_t { packed, scale, bf16, f32 };

// A tensor under inspection. Names of experts are made only when something is wrong: there are half a million.
struct Subject {
  const Tensor* tensor = nullptr;
  Content content = Content::packed;
  std::uint32_t layer = 0, expert = 0, part = 0;
  const ExpectedTensor* named = nullptr;  // nullptr: a part of an expert
};

struct Scan {
  std::uint64_t bad = 0, first = 0;  // elements; first: byte within the piece
};

// Counts elements whose bits under `mask` are all ones: for BF16 and F32 the exponent of infinities and NaNs, for E8M0 the NaN.
template <class Bits>
Scan scan(const std::vector<char>& bytes, std::uint64_t size, Bits mask) {
  Scan result;
  const auto element = [&](std::uint64_t i) {
    Bits bits = 0;
    std::memcpy(&bits, bytes.data() + i * sizeof(Bits), sizeof(Bits));
    return bits;
  };
  const std::uint64_t count = size / sizeof(Bits);
  // No branch in the common loop, so that it becomes vector code.
  for (std::uint64_t i = 0; i < count; ++i) result.bad += (element(i) & mask) == mask;
  if (result.bad == 0) return result;
  while ((element(result.first) & mask) != mask) ++result.first;
  result.first *= sizeof(Bits);
  return result;
}

class Verifier {
 public:
  Verifier(const Checkpoint& checkpoint, VerifyReport& report)
      : checkpoint_(checkpoint), config_(checkpoint.config()), parts_(expected_expert(config_)), report_(report) {}

  void collect() {
    named_ = expected_globals(config_);
    for (std::size_t layer = 0; layer < config_.layers; ++layer) {
      for (auto& tensor : expected_layer(config_, layer)) named_.push_back(std::move(tensor));
    }
    for (const auto& tensor : named_) {
      subjects_.push_back({.tensor = checkpoint_.find(tensor.name),
                           .content = tensor.dtype == DType::f32 ? Content::f32 : Content::bf16,
                           .named = &tensor});
    }
    for (std::size_t layer = config_.dense_layers; layer < config_.layers; ++layer) {
      for (std::size_t expert = 0; expert < config_.experts; ++expert) {
        for (std::uint32_t part = 0; part < 6; ++part) {
          subjects_.push_back({.tensor = &checkpoint_.expert(layer, expert).parts[part],
                               .content = part % 2 == 0 ? Content::packed : Content::scale,
                               .layer = static_cast<std::uint32_t>(layer),
                               .expert = static_cast<std::uint32_t>(expert),
                               .part = part});
        }
      }
    }
    report_.files = checkpoint_.files().size();
    report_.tensors = subjects_.size();
  }

  void read_all(unsigned threads, const Progress& progress) {
    std::vector<Piece> pieces;
    for (std::size_t i = 0; i < subjects_.size(); ++i) append_pieces(pieces, *subjects_[i].tensor, i);
    // In the order of the drive.
    std::sort(pieces.begin(), pieces.end(),
              [](const Piece& a, const Piece& b) { return a.file != b.file ? a.file < b.file : a.offset < b.offset; });
    const PieceWork work = [this](const Piece& piece, const FileHandle& file, const std::string& name) {
      return inspect(piece, file, name);
    };
    const auto done = for_each_piece(checkpoint_.files(), pieces, threads, work, progress);
    if (!done) add(done.error());
  }

  void sort_findings() {
    std::sort(report_.findings.begin(), report_.findings.end(),
              [](const Error& a, const Error& b) { return a.file != b.file ? a.file < b.file : a.offset < b.offset; });
  }

 private:
  Result<void> inspect(const Piece& piece, const FileHandle& file, const std::string& name) {
    thread_local std::vector<char> buffer;
    buffer.resize(std::max<std::uint64_t>(buffer.size(), piece.bytes));
    const auto done = file.read(buffer.data(), piece.bytes, piece.offset, name);
    if (!done) {
      add(done.error());
      return {};
    }
    const Subject& subject = subjects_[piece.tag];
    Scan found;
    switch (subject.content) {
      case Content::packed:
        break;  // every byte is two valid codes
      case Content::scale:
        found = scan<std::uint8_t>(buffer, piece.bytes, 0xff);
        break;
      case Content::bf16:
        found = scan<std::uint16_t>(buffer, piece.bytes, 0x7f80);
        break;
      case Content::f32:
        found = scan<std::uint32_t>(buffer, piece.bytes, 0x7f800000);
        break;
    }
    if (found.bad != 0) {
      const auto what =
          subject.content == Content::scale ? "scale bytes of 255 (not a number)" : "values that are not finite numbers";
      add(Error{
          .code = ErrorCode::corrupt,
          .message = fmt::format("tensor {} holds {} {}; copy or download this file again", name_of(subject), found.bad, what),
          .file = name,
          .offset = static_cast<std::int64_t>(piece.offset + found.first)});
    }
    const std::lock_guard lock(mutex_);
    report_.bytes_read += piece.bytes;
    return {};
  }

  std::string name_of(const Subject& subject) const {
    return subject.named != nullptr ? subject.named->name
                                    : expert_prefix(subject.layer, subject.expert) + parts_[subject.part].name;
  }

  void add(Error finding) {
    const std::lock_guard lock(mutex_);
    if (report_.findings.size() < max_findings) {
      report_.findings.push_back(std::move(finding));
    } else {
      ++report_.findings_left_out;
    }
  }

  const Checkpoint& checkpoint_;
  const Config& config_;
  std::array<ExpectedTensor, 6> parts_;
  VerifyReport& report_;
  std::vector<ExpectedTensor> named_;
  std::vector<Subject> subjects_;
  std::mutex mutex_;
};

}  // namespace

VerifyReport verify(const std::filesystem::path& directory, bool full, unsigned threads,
                    const std::function<void(std::uint64_t, std::uint64_t)>& progress) {
  VerifyReport report;
  const auto checkpoint = Checkpoint::open(directory);
  if (!checkpoint) {
    report.findings.push_back(checkpoint.error());
    return report;
  }
  Verifier verifier(*checkpoint, report);
  verifier.collect();
  if (full) verifier.read_all(threads, progress);
  verifier.sort_findings();
  return report;
}

}  // namespace k3::checkpoint
