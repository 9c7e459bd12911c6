// How the outputs of products are cut into blocks: the unit of work for a thread, and the longest stretch between two cancellation
// points.
#pragma once

#include <algorithm>
#include <cstddef>

namespace k3::layers {

// What to cut: `all` outputs of `columns` columns are shared out among `threads`, for `rows` rows.
struct CutPlan {
  std::size_t all, columns, rows, threads;
};

// One matrix of `outputs` outputs: long blocks from its start, then short ones.
struct Cut {
  std::size_t size, longs, short_size, outputs;

  Cut(const CutPlan& plan, std::size_t matrix_outputs) : outputs(matrix_outputs) {
    // 64 rows of the widest released matrix (33,792 bf16 columns) are 4.3 MB, well under a millisecond of memory traffic for one
    // row; the narrowest big one (1,536 rows) still makes 24 blocks to share out.
    constexpr std::size_t least = 64;
    // With few rows a block lasts no longer than its bytes take to arrive, and only its first ones come as a surprise. So a longer
    // one pays, up to the weights of an expert, which is how long a cancel may take. The last eighth is cut short again, for
    // threads to end together.
    constexpr std::size_t few_rows = 4, most = 1024, most_weights = std::size_t{1} << 25;
    size = short_size = least;
    if (plan.rows <= few_rows) {
      const std::size_t share = std::min(plan.all / (4 * plan.threads), most_weights / plan.columns);
      size = std::clamp(share / least * least, least, most);
      short_size = (size / 4 + least - 1) / least * least;
    }
    longs = outputs * 7 / 8 / size;
  }
  std::size_t shorts() const { return (outputs - longs * size + short_size - 1) / short_size; }
  std::size_t blocks() const { return longs + shorts(); }
};

struct CutBlock {
  std::size_t matrix, first, count;
};

// Block i of those of all matrices, the long ones of all before the short ones of any; cut_of(matrix) is its Cut.
template <class CutOf>
CutBlock block_at(std::size_t i, std::size_t matrices, const CutOf& cut_of) {
  for (std::size_t m = 0; m < matrices; ++m) {
    const Cut cut = cut_of(m);
    if (i < cut.longs) return {m, i * cut.size, cut.size};
    i -= cut.longs;
  }
  for (std::size_t m = 0;; ++m) {
    const Cut cut = cut_of(m);
    if (i < cut.shorts()) {
      const std::size_t first = cut.longs * cut.size + i * cut.short_size;
      return {m, first, std::min(cut.short_size, cut.outputs - first)};
    }
    i -= cut.shorts();
  }
}

}  // namespace k3::layers
