#include <algorithm>
#include <bit>
#include <cstring>
#include <tuple>

#include "model/text/bpe.hpp"

namespace k3::text {

namespace {

// Eight bytes a step; the multiplier is the odd number next to 2^64 divided by the golden ratio, the shift brings high bits down.
std::uint64_t hash_of(std::string_view bytes) {
  constexpr std::uint64_t kMultiplier = 0x9e37'79b9'7f4a'7c15;
  std::uint64_t hash = bytes.size() * kMultiplier;
  while (!bytes.empty()) {
    std::uint64_t word = 0;
    const std::size_t count = std::min<std::size_t>(bytes.size(), sizeof word);
    std::memcpy(&word, bytes.data(), count);
    hash = (hash ^ word) * kMultiplier;
    hash ^= hash >> 32;
    bytes.remove_prefix(count);
  }
  return hash;
}

std::string on_line(std::uint32_t line) { return "line " + std::to_string(line); }

}  // namespace

Vocabulary::Slot& Vocabulary::slot_for(std::string_view bytes) {
  const std::uint64_t hash = hash_of(bytes);
  const auto fingerprint = static_cast<std::uint32_t>(hash >> 32);
  const std::size_t mask = slots_.size() - 1;
  for (std::size_t i = hash & mask;; i = (i + 1) & mask) {
    Slot& slot = slots_[i];
    if (slot.rank == kNone) {
      slot.fingerprint = fingerprint;
      return slot;
    }
    if (slot.fingerprint == fingerprint && this->bytes(slot.rank) == bytes) return slot;
  }
}

std::uint32_t Vocabulary::find(std::string_view bytes) const {
  if (bytes.size() > longest_) return kNone;
  const std::uint64_t hash = hash_of(bytes);
  const auto fingerprint = static_cast<std::uint32_t>(hash >> 32);
  const std::size_t mask = slots_.size() - 1;
  for (std::size_t i = hash & mask;; i = (i + 1) & mask) {
    const Slot& slot = slots_[i];
    if (slot.rank == kNone || (slot.fingerprint == fingerprint && this->bytes(slot.rank) == bytes)) return slot.rank;
  }
}

Result<Vocabulary> Vocabulary::build(std::vector<Entry> entries) {
  std::sort(entries.begin(), entries.end(),
            [](const Entry& a, const Entry& b) { return std::tie(a.rank, a.line) < std::tie(b.rank, b.line); });
  Vocabulary made;
  made.slots_.resize(std::bit_ceil(std::max<std::size_t>(2 * entries.size(), 2)));
  made.offsets_.push_back(0);
  for (std::size_t rank = 0; rank < entries.size(); ++rank) {
    const Entry& entry = entries[rank];
    if (entry.rank < rank) {
      return fail(ErrorCode::corrupt, on_line(entry.line) + ": rank " + std::to_string(entry.rank) + " was already given on " +
                                          on_line(entries[rank - 1].line));
    }
    if (entry.rank > rank) {
      return fail(ErrorCode::corrupt, "rank " + std::to_string(rank) + " is missing, though " + on_line(entry.line) + " has rank " +
                                          std::to_string(entry.rank));
    }
    made.arena_ += entry.bytes;
    made.offsets_.push_back(static_cast<std::uint32_t>(made.arena_.size()));
    made.longest_ = std::max(made.longest_, entry.bytes.size());
    Slot& slot = made.slot_for(entry.bytes);
    if (slot.rank != kNone) {
      const auto [first, second] = std::minmax(entries[slot.rank].line, entry.line);
      return fail(ErrorCode::corrupt, on_line(second) + ": the same bytes as on " + on_line(first));
    }
    slot.rank = entry.rank;
  }
  for (int byte = 0; byte < 256; ++byte) {
    const char single = static_cast<char>(byte);
    if (made.find(std::string_view(&single, 1)) == kNone) {
      return fail(ErrorCode::corrupt, "no rank for the single byte " + std::to_string(byte) + ": some texts could not be encoded");
    }
  }
  return made;
}

}  // namespace k3::text
