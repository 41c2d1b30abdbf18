#include "parallel/plan/plan_messages.h"

#include <fmt/core.h>

#include <algorithm>

namespace trireme {

std::string PlanMessages::Message::to_string() const {
  if (micro_batch < 0) return fmt::format("what concerns unit {}", unit);
  return fmt::format("micro-batch {} of unit {}", micro_batch, unit);
}

PlanMessages::Link PlanMessages::link_of(int rank, const Action& a) {
  return is_send(a.kind) ? Link{traits(a.kind).channel, rank, a.peer}
                         : Link{traits(a.kind).channel, a.peer, rank};
}

PlanMessages::Message PlanMessages::message_of(int rank, const Action& a) {
  const Action send = is_send(a.kind) ? a : counterpart(a, rank);
  return {send.kind, send.unit, send.micro_batch};
}

bool PlanMessages::can_send(const Action& send, const SendingRank& from) const {
  const auto link = links_.find(link_of(from.rank, send));
  if (link == links_.end()) return true;
  const auto waiting = link->second.not_posted.find({send.kind, send.unit});
  return waiting == link->second.not_posted.end() || waiting->second < from.send_window;
}

// Messages match in order: the last one entered on one side must equal the one at the same index on the
// other.
std::optional<std::string> PlanMessages::disagreement(const Side& mine, const Side& other,
                                                      const char* doing) {
  const std::size_t last = mine.messages.size() - 1;
  if (last >= other.messages.size() || other.messages[last] == mine.messages[last]) return std::nullopt;
  return fmt::format("{} {}, where rank {} (action {}) has {}", doing, mine.messages[last].to_string(),
                     other.positions[last].rank, other.positions[last].action,
                     other.messages[last].to_string());
}

std::optional<std::string> PlanMessages::add_send(const Position& position, const Action& send) {
  Traffic& traffic = links_[link_of(position.rank, send)];
  traffic.sent.messages.push_back(message_of(position.rank, send));
  traffic.sent.positions.push_back(position);
  ++traffic.not_posted[{send.kind, send.unit}];
  return disagreement(traffic.sent, traffic.posted, "sends");
}

std::optional<std::string> PlanMessages::add_receive(const Position& position, const Action& receive) {
  Traffic& traffic = links_[link_of(position.rank, receive)];
  const Message& message = traffic.posted.messages.emplace_back(message_of(position.rank, receive));
  traffic.posted.positions.push_back(position);
  --traffic.not_posted[{message.sent_by, message.unit}];
  return disagreement(traffic.posted, traffic.sent, "receives");
}

bool PlanMessages::has_arrived(int rank, const Action& receive) const {
  const auto link = links_.find(link_of(rank, receive));
  if (link == links_.end()) return false;
  const std::vector<Message>& posted = link->second.posted.messages;
  // Most likely one of the last.
  const auto from_back = std::find(posted.rbegin(), posted.rend(), message_of(rank, receive));
  const auto position =
      from_back == posted.rend() ? posted.size() : static_cast<std::size_t>(posted.rend() - from_back) - 1;
  return position < link->second.sent.messages.size();
}

bool PlanMessages::next_has_arrived(int rank, const Action& receive) const {
  const auto link = links_.find(link_of(rank, receive));
  return link != links_.end() && link->second.posted.messages.size() < link->second.sent.messages.size();
}

bool PlanMessages::all_posted(int rank) const {
  return std::ranges::all_of(links_, [&](const auto& entry) {
    return entry.first.source != rank ||
           entry.second.posted.positions.size() >= entry.second.sent.positions.size();
  });
}

std::optional<PlanMessages::Position> PlanMessages::waiting_receive(int rank) const {
  for (const auto& [link, traffic] : links_) {
    if (link.destination != rank || traffic.posted.positions.size() <= traffic.sent.positions.size())
      continue;
    return traffic.posted.positions[traffic.sent.positions.size()];
  }
  return std::nullopt;
}

std::optional<PlanMessages::Unmatched> PlanMessages::unmatched_send() const {
  for (const auto& [link, traffic] : links_) {
    const std::size_t posted = traffic.posted.positions.size();
    if (traffic.sent.positions.size() > posted)
      return Unmatched{traffic.sent.positions[posted], link.destination};
  }
  return std::nullopt;
}

std::optional<PlanMessages::Unmatched> PlanMessages::unmatched_receive() const {
  for (const auto& [link, traffic] : links_) {
    const std::size_t sent = traffic.sent.positions.size();
    if (traffic.posted.positions.size() > sent) return Unmatched{traffic.posted.positions[sent], link.source};
  }
  return std::nullopt;
}

}  // namespace trireme
