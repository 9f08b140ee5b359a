/** A window over the page, closed by Escape, by its button, or by a click beside it. */

import type { ComponentChildren, VNode } from "preact";
import { useEffect, useId, useRef } from "preact/hooks";

interface Props {
  title: string;
  close: () => void;
  children: ComponentChildren;
}

/** Open as long as it is on the page; the focus then goes back to where it was. */
export function Dialog({ title, close, children }: Props): VNode {
  const ref = useRef<HTMLDialogElement>(null);
  const name = useId();
  useEffect(() => {
    const before = document.activeElement;
    ref.current?.showModal();
    return () => {
      if (before instanceof HTMLElement && before.isConnected) before.focus();
    };
  }, []);
  return (
    <dialog
      ref={ref}
      aria-labelledby={name}
      onClose={close}
      onClick={(event) => event.target === ref.current && close()}
    >
      <div class="dialog">
        <div class="dialog-head">
          <h2 id={name}>{title}</h2>
          <button type="button" class="quiet" onClick={close}>
            Close
          </button>
        </div>
        {children}
      </div>
    </dialog>
  );
}

interface ConfirmProps {
  title: string;
  verb: string;
  danger?: boolean;
  confirm: () => void;
  close: () => void;
  children: ComponentChildren;
}

/** Asks before something is done that cannot be undone here. */
export function Confirm(props: ConfirmProps): VNode {
  const { title, verb, danger, confirm, close, children } = props;
  return (
    <Dialog title={title} close={close}>
      {children}
      <div class="row end">
        <button type="button" onClick={close} autofocus>
          Cancel
        </button>
        <button type="button" class={danger ? "danger" : "strong"} onClick={confirm}>
          {verb}
        </button>
      </div>
    </Dialog>
  );
}
