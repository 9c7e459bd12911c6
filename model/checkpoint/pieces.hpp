// Many ranges of many files, worked off by several threads: what loading and verifying share.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "model/checkpoint/checkpoint.hpp"
#include "model/checkpoint/file_io.hpp"

namespace k3::checkpoint {

struct Piece {
  std::uint32_t file = 0;
  std::uint64_t offset = 0, bytes = 0;
  std::uint64_t tag = 0;  // the caller's: where it goes, or what it belongs to
};

// Large enough that the call costs nothing beside the read, small enough that threads finish together.
inline constexpr std::uint64_t piece_bytes = 8U << 20;

// Appends the bytes of a tensor in pieces.
void append_pieces(std::vector<Piece>& pieces, const Tensor& tensor, std::uint64_t tag);

using Progress = std::function<void(std::uint64_t done, std::uint64_t total)>;
// Called by several threads at once, with the opened file of the piece. An error ends the whole run, unless another copy of the
// file does better.
using PieceWork = std::function<Result<void>(const Piece& piece, const FileHandle& file, const std::string& name)>;

// Works off the pieces in the order given. Of a file's copies each piece takes the one whose drive has the least to do at the time,
// so that the faster drive gets more of them. `progress` (may be empty) is called from the calling thread only.
Result<void> for_each_piece(std::span<const File> files, std::span<const Piece> pieces, unsigned threads, const PieceWork& work,
                            const Progress& progress);

}  // namespace k3::checkpoint
