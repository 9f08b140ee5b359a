/** A table with names of columns, which scrolls by itself where it is wide. */

import type { ComponentChildren, VNode } from "preact";

interface RowsProps {
  label: string;
  columns: readonly string[];
  children: ComponentChildren;
}

export function Rows({ label, columns, children }: RowsProps): VNode {
  return (
    <div class="scroll rows" tabIndex={0} role="region" aria-label={label}>
      <table>
        <thead>
          <tr>
            {columns.map((name) => (
              <th scope="col" key={name}>
                {name}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>{children}</tbody>
      </table>
    </div>
  );
}
