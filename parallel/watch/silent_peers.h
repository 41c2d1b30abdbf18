// Detects hosts that no longer answer, from this process's own TCP connections.
//
// [Note: silent hosts] The other host's kernel acknowledges data sent over TCP, even while the process there
// computes, hangs or is stopped. A dead host or link acknowledges nothing, and the kernel here retransmits
// after 0.2 s, 0.4 s, 0.8 s and so on. So a connection with retransmissions and no answer distinguishes a
// silent host from a slow or stopped rank. Hosts to which nothing was sent, and networks other than TCP, are
// not covered.
#pragma once

#include <string>
#include <vector>

namespace trireme {

struct SilentPeer {
  std::string address;  // numeric, without a port
  double silent_s = 0;  // since the last acknowledgement
  int num_resent = 0;   // number of retransmissions
};

/// The peers of this process's TCP connections that have not answered for half a second or more, despite two
/// or more retransmissions; each address once. Linux only; elsewhere empty.
std::vector<SilentPeer> find_silent_peers();

/// "10.0.0.2 has acknowledged nothing for 1.6 s, after 3 retransmissions: ..."; empty for no peers.
std::string describe_silent_peers(const std::vector<SilentPeer>& peers);

}  // namespace trireme
