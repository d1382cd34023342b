// SPDX-License-Identifier: Apache-2.0

// A list of any length of which only those rows exist that are in sight. Rows are of one height, are
// made once and are used again for other items, so that scrolling neither makes nor drops elements.

import { h } from './dom.js';

const SPARE = 4; // rows above and below what is in sight

// scroller: the element that scrolls. make() → row element; show(row, item). Returns {element,
// set(items), shown() → the items in sight}.
export function lanes({ scroller, height, make, show, label, signal }) {
    const element = h('div', { class: 'lanes', role: 'list', 'aria-label': label });
    const rows = []; // by slot: {element, index}
    let items = [], first = 0, last = 0, pending = false;

    function place(index) {
        const slot = index % rows.length;
        const row = rows[slot];
        if (row.index !== index) {
            row.index = index;
            row.element.style.transform = `translateY(${index * height()}px)`;
            row.element.setAttribute('aria-posinset', index + 1);
        }
        row.element.setAttribute('aria-setsize', items.length);
        row.element.hidden = false;
        show(row.element, items[index]);
    }

    function draw() {
        pending = false;
        const top = scroller.getBoundingClientRect().top - element.getBoundingClientRect().top;
        const size = height();
        const wanted = Math.ceil(scroller.clientHeight / size) + 2 * SPARE;
        while (rows.length < wanted) {
            const row = make();
            row.setAttribute('role', 'listitem');
            row.hidden = true;
            rows.push({ element: row, index: -1 });
            element.append(row);
        }
        first = Math.max(0, Math.min(Math.floor(top / size) - SPARE, items.length - rows.length));
        last = Math.min(items.length, first + rows.length);
        for (let i = first; i < last; i++)
            place(i);
        for (const row of rows) {
            if (row.index < first || row.index >= last) {
                row.element.hidden = true;
                row.index = -1;
            }
        }
    }

    function later() {
        if (!pending) {
            pending = true;
            requestAnimationFrame(draw);
        }
    }

    scroller.addEventListener('scroll', later, { passive: true, signal });
    addEventListener('resize', () => {
        for (const row of rows)
            row.index = -1;
        element.style.height = `${items.length * height()}px`;
        later();
    }, { signal });
    return {
        element,
        set(next) {
            items = next;
            element.style.height = `${items.length * height()}px`;
            later();
        },
        shown: () => items.slice(first, last),
    };
}
