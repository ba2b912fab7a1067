// The filter: dims what does not fit, counts, and steps from call to call.

import { announce, byId, messageOf, say } from "weft/dom.js";

/** @import { Api } from "weft/sent" */
/** @import { Page } from "weft/main.js" */
/** @import { State } from "weft/state.js" */

export class Search {
  /**
   * @param {Api} api
   * @param {State} state
   * @param {Page} actions
   */
  constructor(api, state, actions) {
    this.api = api;
    this.state = state;
    this.actions = actions;
    this.input = byId("filter");
    this.output = byId("found");
    this.input.value = state.filter;
    byId("search").addEventListener("submit", (event) => {
      event.preventDefault();
      this.submit();
    });
    this.input.addEventListener("search", () => {
      if (!this.input.value) this.submit();
    });
    byId("found-before").addEventListener("click", () => this.next(true));
    byId("found-next").addEventListener("click", () => this.next(false));
    if (state.filter) this.count();
  }

  async submit() {
    const filter = this.input.value.trim();
    if (filter === this.state.filter && filter) {
      await this.next(false);
      return;
    }
    if (await this.count(filter)) {
      this.state.set({ filter });
      this.actions.filtered();
    }
  }

  /** Shows how many calls fit; false where the words are no filter. */
  async count(filter = this.state.filter) {
    this.output.className = "";
    for (const name of ["found-before", "found-next"]) byId(name).hidden = !filter;
    if (!filter) {
      this.output.textContent = "";
      return true;
    }
    try {
      const found = await this.ask(filter, this.state.from, -1, false);
      this.output.textContent = found.text;
      announce(`${found.text} fit the filter`);
      return true;
    } catch (error) {
      this.output.className = "bad";
      this.output.textContent = messageOf(error);
      announce(messageOf(error));
      return false;
    }
  }

  /**
   * @param {string} filter
   * @param {number} near
   * @param {number} row
   * @param {boolean} back
   */
  ask(filter, near, row, back) {
    return this.api.search({ axis: this.state.axis, filter, near, row, back: back ? 1 : 0 });
  }

  /** @param {boolean} back */
  async next(back) {
    if (this.api.exported) {
      say("This file cannot be filtered: use weft view.");
      return;
    }
    if (!this.state.filter) {
      say("There is no filter: write one.");
      this.input.focus();
      return;
    }
    const here = this.actions.chosenPlace();
    const near = here ? here[1] : back ? this.state.to : this.state.from;
    let found = await this.ask(this.state.filter, near, here ? here[0] : -1, back);
    if (!found.event && found.count) found = await this.ask(this.state.filter, back ? 1e17 : -1, -1, back); // round again
    if (found.event) this.actions.jump(found.event);
    else say("No call fits the filter.");
  }
}
