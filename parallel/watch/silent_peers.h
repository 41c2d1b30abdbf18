// Hosts that answer nothing any more, as this process's own connections show it: whoever waits for one of
// them need not ask anybody else.
//
// [Note: silent hosts] What a process sends over TCP is acknowledged by the other host's kernel, also while
// the process there computes, hangs or is stopped. A host that is gone, or the link to it, acknowledges
// nothing, and the kernel here sends again and again, after 0.2 s, 0.4 s, 0.8 s and so on. So a connection
// with something sent again and no answer tells a silent host from a slow or stopped rank. Nothing is seen of
// hosts to which nothing was sent, and of networks that are not TCP's.
#pragma once

#include <string>
#include <vector>

namespace trireme {

struct SilentPeer {
  std::string address;  // numeric, without a port
  double silent_s = 0;  // since it acknowledged something
  int num_resent = 0;   // times that the same was sent again
};

/// Of all TCP connections of this process, those whose peer has not answered for half a second or more though
/// what it was sent was sent again twice or more; each address once. Linux only; elsewhere nothing.
std::vector<SilentPeer> find_silent_peers();

/// "10.0.0.2 has acknowledged nothing for 1.6 s, though ..."; empty: of none.
std::string describe_silent_peers(const std::vector<SilentPeer>& peers);

}  // namespace trireme
