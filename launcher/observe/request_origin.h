// Decides which requests a server answers: requests addressed to this server, and from its own pages.
//
// [Note: DNS rebinding] A web page in the user's browser can resolve its own name to 127.0.0.1 and read the
// answers of a local server. The browser then sends the page's name as Host. So a server on loopback answers
// only requests to loopback addresses, to localhost, and to the name that it listens on. A page of another
// origin sends its own Origin, and every server refuses it.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace trireme {

struct RequestOrigin {
  std::vector<std::string> hosts;    // the values of all Host headers
  std::vector<std::string> origins;  // the values of all Origin headers
  std::string authority = {};        // of the request's target; may be empty
};

/// The target of a request: "/metrics", or "http://127.0.0.1:9464/metrics".
struct RequestTarget {
  std::string authority;  // replaces Host (RFC 9112, 3.2.2); empty: the target is only a path
  std::string path;
};
/// Null for a target in neither form.
std::optional<RequestTarget> parse_target(std::string_view target);

/// 0 if the request may be answered, else the HTTP status: 400 for a missing, repeated or malformed Host, 421
/// for another server's name, 403 for another page's origin. `listened`: the host part of the server's
/// address. `loopback`: only this machine can reach the server.
unsigned refusal_of(const RequestOrigin& request, std::string_view listened, bool loopback);

}  // namespace trireme
