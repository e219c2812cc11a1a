// SPDX-License-Identifier: Apache-2.0
#include "etude/core/index.h"

namespace etude {

IndexItem::IndexItem(Number index, CallSite where) : value_(index.value), where_(where) {}
IndexItem::IndexItem(Slice s, CallSite where) : value_(s), where_(where) {}
IndexItem::IndexItem(NewAxis a, CallSite where) : value_(a), where_(where) {}
IndexItem::IndexItem(Ellipsis e, CallSite where) : value_(e), where_(where) {}
IndexItem::IndexItem(const Tensor& t, CallSite where) : value_(t), where_(where) {}
IndexItem::IndexItem(const IndexItem& other) = default;
IndexItem::IndexItem(IndexItem&& other) noexcept = default;
IndexItem& IndexItem::operator=(const IndexItem& other) = default;
IndexItem& IndexItem::operator=(IndexItem&& other) noexcept = default;
IndexItem::~IndexItem() = default;

}  // namespace etude
