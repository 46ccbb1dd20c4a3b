#include "engine/parameters/parameter_slab.h"

#include <algorithm>
#include <utility>

#include "engine/base/error.h"
#include "engine/base/numbers.h"
#include "engine/core/session.h"
#include "engine/device/device_access.h"
#include "engine/gradients/autograd.h"
#include "engine/ops/ops.h"

namespace gemel {
namespace {

constexpr std::int64_t kPageBytes = Slab::kPageElements * std::int64_t{sizeof(float)};

std::int64_t pages_of(const Specs& specs) {
  std::int64_t pages = 0;
  for (const Spec& s : specs) pages += Slab::pages_for(s);
  return pages;
}

/// @param others  that it is to be packed with
void check_packable(const Value& v, const Values& others) {
  const auto refuse = [&](const char* why) { throw UsageError("pack: the parameter " + to_string(v.spec()) + " " + why); };
  if (!v.node() || v.node()->op) refuse("is no leaf; accepted: leaves");
  if (!others.empty() && &others[0].session() != &v.session()) refuse("belongs to another session than the first; accepted: leaves of one session");
  if (v.dtype() != DType::float32) refuse("cannot be packed; accepted: float32");
  if (!v.storage()->memory) refuse("is symbolic, a name in a graph; accepted: a computed tensor");
  if (v.storage()->whole || v.offset() != 0 || v.storage()->elements != v.elements())
    refuse("shares its memory with another tensor; accepted: a tensor of its own, each once");
}

bool alone(const Value& leaf) { return leaf.node()->gradient_form == GradientForm::rows; }

}  // namespace

std::int64_t Slab::pages_for(const Spec& spec) { return std::max<std::int64_t>(1, ceil_div(spec.elements(), kPageElements)); }

Slab::Slab(Session& session, const Specs& specs, std::string_view what, const HostMemorySource& source) {
  const TraceScope computing(session, session.interpreter());  // it has memory also where it is made while capturing
  const std::int64_t pages = pages_of(specs);
  const auto storage = std::make_shared<Storage>(session, pages * kPageElements);
  if (const HostBytes given = source ? source(pages * kPageBytes) : HostBytes(); given.first)
    storage->memory = memory_over(session, given, pages * kPageBytes, what);
  else
    storage->memory = session.interpreter().allocate_bytes(pages * kPageBytes, what);
  whole_ = Value(f32({pages * kPageElements}), storage);
  apply(session, full_def(), {}, {{"shape", whole_.shape()}, {"dtype", DType::float32}, {"value", 0.0}}, std::span(&whole_, 1));
  storage->writes = {};  // nobody has seen it: a tensor that becomes a part of it keeps its version
  std::int64_t page = 0;
  for (const Spec& spec : specs) {
    auto part = std::make_shared<Storage>(session, spec.elements());
    part->memory = session.interpreter().part_of(storage->memory, page * kPageBytes, spec.bytes());
    part->whole = storage;
    part->first = page * kPageElements;
    parts_.emplace_back(spec, std::move(part));
    page += pages_for(spec);
  }
}

void Slab::adopt(std::size_t i, const Value& tensor) {
  const auto &to = parts_[i].storage(), &from = tensor.storage();
  tensor.session().interpreter().copy(tensor.detached(), parts_[i]);
  from->memory = to->memory;
  from->whole = to->whole;
  from->first = to->first;
  parts_[i] = tensor.detached();
}

/// All that may be refused comes before a leaf moves.
ParameterSlab::ParameterSlab(Session& session, std::span<const Value> leaves, const PackOptions& options)
    : parameters_(session, specs_of(leaves), "parameters", options.parameters), gradient_memory_(options.gradients) {
  if (gradient_memory_ && !alone(leaves[0])) this->gradients();
  // A device's first map may build a kernel: better now than when a file is saved, maybe to a disk that is full.
  if (session.has_device()) {
    HostView view = map(parameters_.whole().view(f32({1}), 0), Access::read, mark(session));
    view.ready().wait();  // some drivers refuse to end one that has not begun
    wait_for(session, view.release());
  }
}

const Slab& ParameterSlab::gradients() {
  if (gradients_.whole()) return gradients_;
  gradients_ = Slab(parameters_.whole().session(), specs_of(parameters_.parts()), "gradients", gradient_memory_);
  gradient_memory_ = nullptr;
  return gradients_;
}

Slab ParameterSlab::exchange_gradients(Slab other) {
  gradient_memory_ = nullptr;
  return std::exchange(gradients_, std::move(other));
}

void ParameterSlab::pack(std::span<const Value> leaves, const PackOptions& options) {
  Values loose;
  for (const Value& v : leaves) {
    if (v.node() && v.node()->slab) continue;
    check_packable(v, loose);
    loose.push_back(v);
  }
  for (std::size_t begin = 0, end = 0; begin < loose.size(); begin = end) {
    Session& session = loose[begin].session();
    const std::int64_t most = (options.largest_bytes > 0 ? options.largest_bytes : session.interpreter().largest_allocation()) / kPageBytes;
    std::int64_t pages = 0;
    const auto joins = [&](const Value& v) { return !alone(v) && !alone(loose[begin]) && pages + Slab::pages_for(v.spec()) <= most; };
    for (; end < loose.size() && (end == begin || joins(loose[end])); ++end) pages += Slab::pages_for(loose[end].spec());
    const std::span group(loose.begin() + std::ptrdiff_t(begin), loose.begin() + std::ptrdiff_t(end));
    const std::shared_ptr<ParameterSlab> slab(new ParameterSlab(session, group, options));
    for (std::size_t i = 0; i < group.size(); ++i) {
      slab->parameters_.adopt(i, group[i]);
      group[i].node()->slab = slab;
      group[i].node()->index_in_slab = i;
    }
    session.interpreter().trim();             // of what they were in
    if (!alone(group[0])) slab->gradients();  // once the leaves know their slab: where there is no room they stay in it and are good to use
  }
}

void pack_in_backward_order(const Values& outputs, const Values& leaves) {
  Values ordered;
  for (const std::size_t i : gradient_order(outputs, leaves)) ordered.push_back(leaves[i]);
  ParameterSlab::pack(ordered);
}

Slab ParameterSlab::slot(std::string_view name) const { return {parameters_.whole().session(), specs_of(parameters_.parts()), name}; }

Value ParameterSlab::page_table(std::span<const std::int32_t> rows) const {
  std::vector<std::int32_t> table;
  table.reserve(at(2 * parameters_.pages()));
  for (std::size_t i = 0; i < size(); ++i) {
    std::int64_t left = parameters_.part(i).elements();
    for (std::int64_t page = Slab::pages_for(parameters_.part(i).spec()); page > 0; --page, left -= Slab::kPageElements) {
      table.push_back(rows[i]);
      table.push_back(static_cast<std::int32_t>(std::clamp<std::int64_t>(left, 0, Slab::kPageElements)));
    }
  }
  return parameters_.whole().session().tensor(i32({parameters_.pages(), 2}), std::as_bytes(std::span(table)));
}

Value gradient_place(const Value& leaf) { return leaf.node() && leaf.node()->slab && !alone(leaf) ? dense_gradient_place(leaf) : Value(); }

Value dense_gradient_place(const Value& leaf) { return leaf.node()->slab->gradients().part(leaf.node()->index_in_slab); }

}  // namespace gemel
