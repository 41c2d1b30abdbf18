// Who may read a server's answers: requests that name this server, from pages that it served itself.
//
// [Note: DNS rebinding] A page in a user's browser can let a name of its own resolve to 127.0.0.1 and read
// what a server there answers. The browser then sends that name as Host. So a server on loopback answers only
// requests to loopback addresses, to localhost and to the name that it was told to listen at. A page of
// another origin sends its own as Origin, and is refused by every server.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace trireme {

struct RequestOrigin {
  std::vector<std::string> hosts;    // the values of all Host headers
  std::vector<std::string> origins;  // the values of all Origin headers
  std::string authority = {};        // of the request's target; empty: it has none
};

/// What a request names: "/metrics", or "http://127.0.0.1:9464/metrics".
struct RequestTarget {
  std::string authority;  // takes the place of Host (RFC 9112, 3.2.2); empty: it names a path alone
  std::string path;
};
/// Nothing for a target in neither form.
std::optional<RequestTarget> parse_target(std::string_view target);

/// 0 if the request may be answered. Else the HTTP status: 400 for a Host that is missing or repeated, or a
/// name that is no address, 421 for another server's name, 403 for another page's origin. `listened` is the
/// host part of the address that the server listens at, `loopback` whether only this machine reaches it.
unsigned refusal_of(const RequestOrigin& request, std::string_view listened, bool loopback);

}  // namespace trireme
