#include "model/checkpoint/verify.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <deque>
#include <map>
#include <mutex>
#include <optional>

#include "model/checkpoint/checksum.hpp"
#include "model/checkpoint/container_file.hpp"
#include "model/checkpoint/copies.hpp"
#include "model/checkpoint/pieces.hpp"
#include "model/checkpoint/safetensors.hpp"
#include "model/checkpoint/tensor_list.hpp"

namespace k3::checkpoint {
namespace {

constexpr std::size_t max_findings = 1000;

// packed: whatever the bytes, they are valid codes.
enum class Content : std::uint8_t { packed, scale, bf16, f32 };

// A tensor under inspection. Names of experts are made only when something is wrong: there are half a million.
struct Subject {
  const Tensor* tensor = nullptr;
  std::uint32_t file = 0;  // of Verifier::files_
  Content content = Content::packed;
  std::uint32_t layer = 0, expert = 0, part = 0;
  const std::string* named = nullptr;       // nullptr: a part of an expert
  std::optional<std::uint64_t> checksum{};  // what its bytes should have
  bool copied = false;                      // it is in several files
  std::optional<std::size_t> original{};    // the subject that this one is a copy of
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
      : checkpoint_(checkpoint), config_(checkpoint.config()), parts_(expected_expert(config_)), report_(report) {
    for (const File& file : checkpoint.files()) {
      first_copy_.push_back(static_cast<std::uint32_t>(files_.size()));
      for (File& copy : one_by_one({file})) files_.push_back(std::move(copy));
    }
    first_copy_.push_back(static_cast<std::uint32_t>(files_.size()));
  }

  void collect() {
    add_named(expected_globals(config_));
    for (std::size_t layer = 0; layer < config_.layers; ++layer) add_named(expected_layer(config_, layer));
    for (std::size_t layer = config_.dense_layers; layer < config_.layers; ++layer) {
      for (std::size_t expert = 0; expert < config_.experts; ++expert) {
        for (std::uint32_t part = 0; part < 6; ++part) {
          const Tensor* const tensor = &checkpoint_.expert(layer, expert).parts[part];
          subjects_.push_back({.tensor = tensor,
                               .file = first_copy_[tensor->file],
                               .content = part % 2 == 0 ? Content::packed : Content::scale,
                               .layer = static_cast<std::uint32_t>(layer),
                               .expert = static_cast<std::uint32_t>(expert),
                               .part = part});
        }
      }
    }
    report_.files = files_.size();
    report_.tensors = subjects_.size();
    for (const Error& useless : checkpoint_.left_out()) add(useless);
  }

  void read_all(unsigned threads, const Progress& progress) {
    add_copies();
    collect_checksums();
    std::vector<Piece> pieces;
    for (std::size_t i = 0; i < subjects_.size(); ++i) {
      const std::size_t first = pieces.size();
      append_pieces(pieces, *subjects_[i].tensor, 0);
      for (std::size_t k = first; k < pieces.size(); ++k) {
        pieces[k].tag = k;
        pieces[k].file = subjects_[i].file;
      }
      subject_of_.resize(pieces.size(), i);
    }
    checksums_.resize(pieces.size());
    // In the order of the drive.
    std::sort(pieces.begin(), pieces.end(),
              [](const Piece& a, const Piece& b) { return a.file != b.file ? a.file < b.file : a.offset < b.offset; });
    const PieceWork work = [this](const Piece& piece, const FileHandle& file, const std::string& name) {
      return inspect(piece, file, name);
    };
    const auto done = for_each_piece(files_, pieces, threads, work, progress);
    if (!done) return add(done.error());
    compare_checksums();
  }

  void sort_findings() {
    std::sort(report_.findings.begin(), report_.findings.end(),
              [](const Error& a, const Error& b) { return a.file != b.file ? a.file < b.file : a.offset < b.offset; });
  }

 private:
  void add_named(const std::vector<ExpectedTensor>& tensors) {
    for (const auto& tensor : tensors) {
      const Tensor* found = checkpoint_.find(tensor.name);
      const bool rounded = found->dtype == DType::u8;
      add_named(tensor.name, found, rounded ? Content::packed : tensor.dtype == DType::f32 ? Content::f32 : Content::bf16);
      if (const auto scales = tensor.name + scales_ending; rounded) add_named(scales, checkpoint_.find(scales), Content::f32);
    }
  }

  void add_named(const std::string& name, const Tensor* tensor, Content content) {
    names_.push_back(name);
    subjects_.push_back({.tensor = tensor, .file = first_copy_[tensor->file], .content = content, .named = &names_.back()});
  }

  // Behind all originals, so that an original's checksum is known when a copy's is.
  void add_copies() {
    const std::size_t originals = subjects_.size();
    for (std::size_t i = 0; i < originals; ++i) {
      const std::uint32_t end = first_copy_[subjects_[i].tensor->file + 1];
      for (std::uint32_t file = subjects_[i].file + 1; file < end; ++file) {
        subjects_[i].copied = true;
        Subject copy = subjects_[i];
        copy.file = file;
        copy.original = i;
        subjects_.push_back(copy);
      }
    }
  }

  // From the shards' headers. Where some carry them, one that does not was replaced or damaged. Shards of a trunk alone stand
  // beside those of its source, so each kind is judged among its own.
  void collect_checksums() {
    std::vector<std::map<std::uint64_t, std::uint64_t>> by_offset(files_.size());
    std::array<bool, 2> carried{};  // by the shards of the model, of a trunk alone
    const auto kind = [this](std::size_t file) { return is_trunk_shard(files_[file].path.filename().string()) ? 1U : 0U; };
    for (std::size_t file = 0; file < by_offset.size(); ++file) {
      const auto header = read_header(files_[file].path);
      if (!header) return add(header.error());
      const auto checksums = checksums_in(*header);
      for (std::size_t i = 0; i < checksums.size(); ++i) by_offset[file][header->tensors[i].tensor.offset] = checksums[i];
      carried[kind(file)] |= !checksums.empty();
    }
    for (std::size_t file = 0; file < by_offset.size(); ++file) {
      if (!by_offset[file].empty() || !carried[kind(file)]) continue;
      add(Error{.code = ErrorCode::corrupt,
                .message = "this shard carries no checksums though others of the container do",
                .file = files_[file].path.string()});
    }
    for (Subject& subject : subjects_) {
      const auto& checksums = by_offset[subject.file];
      if (const auto found = checksums.find(subject.tensor->offset); found != checksums.end()) subject.checksum = found->second;
    }
  }

  // Pieces of a subject lie side by side in checksums_, in the order of their bytes.
  void compare_checksums() {
    std::vector<std::uint64_t> seen(subjects_.size());
    for (std::size_t first = 0, end = 0; first < subject_of_.size(); first = end) {
      while (end < subject_of_.size() && subject_of_[end] == subject_of_[first]) ++end;
      const Subject& subject = subjects_[subject_of_[first]];
      if (!subject.checksum && !subject.copied) continue;
      const std::uint64_t got = tensor_checksum(std::span(checksums_).subspan(first, end - first));
      seen[subject_of_[first]] = got;
      if (!subject.checksum) {
        if (subject.original && seen[*subject.original] != got) add(unlike_original(subject));
        continue;
      }
      ++report_.compared;
      if (got == *subject.checksum) continue;
      add(Error{.code = ErrorCode::corrupt,
                .message =
                    fmt::format("tensor {} is not what was written; remove this shard and run `k3 repack` again", name_of(subject)),
                .file = files_[subject.file].path.string(),
                .offset = static_cast<std::int64_t>(subject.tensor->offset),
                .expected = fmt::format("bytes of checksum {:016x}", *subject.checksum),
                .got = fmt::format("{:016x}", got)});
    }
  }

  // Nothing says which of the two is right.
  Error unlike_original(const Subject& copy) const {
    return Error{.code = ErrorCode::corrupt,
                 .message = fmt::format("tensor {} is not the same here and in {}", name_of(copy),
                                        files_[subjects_[*copy.original].file].path.string()),
                 .file = files_[copy.file].path.string(),
                 .offset = static_cast<std::int64_t>(copy.tensor->offset)};
  }

  Result<void> inspect(const Piece& piece, const FileHandle& file, const std::string& name) {
    thread_local std::vector<char> buffer;
    buffer.resize(std::max<std::uint64_t>(buffer.size(), piece.bytes));
    const auto done = file.read(buffer.data(), piece.bytes, piece.offset, name);
    if (!done) {
      add(done.error());
      return {};
    }
    const Subject& subject = subjects_[subject_of_[piece.tag]];
    if (subject.checksum || subject.copied) checksums_[piece.tag] = xxh64(buffer.data(), piece.bytes);
    Scan found;
    switch (subject.content) {
      case Content::packed:
        break;
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
    return subject.named != nullptr ? *subject.named : expert_prefix(subject.layer, subject.expert) + parts_[subject.part].name;
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
  std::vector<File> files_;                // every copy of every shard
  std::vector<std::uint32_t> first_copy_;  // [shards + 1], in files_
  std::deque<std::string> names_;
  std::vector<Subject> subjects_;
  std::vector<std::size_t> subject_of_;   // [pieces]
  std::vector<std::uint64_t> checksums_;  // [pieces], each written by the thread that read it
  std::mutex mutex_;
};

}  // namespace

VerifyReport verify(const std::filesystem::path& directory, bool full, unsigned threads,
                    const std::function<void(std::uint64_t, std::uint64_t)>& progress,
                    std::span<const std::filesystem::path> others) {
  VerifyReport report;
  const auto checkpoint = Checkpoint::open(directory, others);
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
