// Into how many tensor chunks a vocabulary is cut.
#pragma once

#include <cstdint>

namespace trireme {

/// `chunks` where they divide the vocabulary, else 1: all tensor ranks have the whole table then.
inline int vocab_chunks(std::int64_t vocab, int chunks) {
  return vocab % chunks == 0 ? chunks : 1;
}

}  // namespace trireme
